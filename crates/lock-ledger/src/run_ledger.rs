//! The contract of a run ledger.

use crate::{
    control::{CommandReply, FleetControls, JobCommand},
    heartbeat::{HeartbeatReply, HeartbeatRequest},
    ids::{GroupName, JobId},
    instance::{AddReply, AddRequest, Instances, Removal, RemoveReply},
    reply::{ClaimReply, EndReply, RegisteredJob, RunRenewal},
    request::{ClaimRequest, EndRequest, Registration, RenewRun},
    run::{Attempt, OpenRun},
    summary::{GroupSummary, JobDescription},
};
use async_trait::async_trait;
use lock_core::{
    backend::{BackendError, Reply},
    clock::UtcTime,
};
use std::{fmt::Debug, sync::Arc};

/// The record of started runs: which node ran them, and how they ended.
///
/// The rules are pure functions of this crate ([`GroupLedger`](crate::GroupLedger)). The in-memory ledger wraps them
/// in a mutex, and the conformance suite of `lock-testkit` compares every other ledger with them. A store that cannot
/// decide alone, such as a quorum, does not implement this trait.
///
/// # Contract
/// - **Every operation is atomic and safe to repeat.** A claim that is repeated with its [`ClaimId`](crate::ClaimId) is
///   granted again with the same token while its lease lasts. A trigger that is sent twice starts once, unless its run
///   has already dropped out of the history.
/// - **The server's clock decides.** The caller's clock only determines when to ask.
/// - **Values never decrease**: the watermark of a job, the expiry of a renewed run, the revision of a group's
///   controls, and the fencing tokens, which follow the rules of a lock's tokens. The exception is
///   [`JobCommand::Reset`], with which an operator lowers a watermark.
/// - **Revisions outlive the data.** A revision is at least the server's current time in milliseconds, so that a
///   revision from before a loss of data never recurs. [`JobCommand::Reinstate`] relies on it.
/// - **The claim is the lock of its run.** Its lease starts when the claim is executed and is extended by
///   [`renew`](Self::renew). A caller that measures the lease from before it sent the request, on a clock that counts
///   suspended time, knows without asking when the run is no longer its own.
/// - **Data of later versions is preserved**: unknown fields and words never make an answer undecodable.
/// - Futures may be dropped at any await, and errors say whether the operation [may have been
///   applied](BackendError::applied), as with every operation of a backend.
///
/// # Order of the decisions in a claim
/// 1. *repeat*: the open attempt of the run has this claim id → claimed, with the same token and a renewed lease, or
///    *gone* if its lease has ended; the last skip has this claim id → skipped;
/// 2. *retry*: the request names the open attempt of the run, which failed, was interrupted, orphaned or requeued,
///    and its budget allows another one → claimed, with a new token; the watermark stays;
/// 3. *unregistered*: the job has no watermark, so the data was lost;
/// 4. *paused*, *outdated*: the controls or the definition of the job differ from those that the caller has read;
/// 5. *duplicate*, *superseded*: the instant is open or decided, a later one is decided, or the schedule started
///    later;
/// 6. *early*, *behind*: the instant is in the future, or the instant before it is not decided;
/// 7. *skipped*, *busy*: the request asks for a skip, or other runs of the job are open and the overlap rule refuses;
/// 8. *pool full*: the request names a pool that is full; nothing is written, so that the instant stays undecided, the
///    trigger waits, and the attempt to follow can still be followed. This applies to retries as well, after 2;
/// 9. *claimed*: the watermark is moved, a token is drawn and the run is recorded, in one step. A skip moves the
///    watermark too.
///
/// A triggered run has no instant. Instead of the checks in 5 and 6, and of the controls in 4, it needs a waiting
/// trigger that has not *expired*, and the watermark stays.
///
/// # Backfills
/// A backfill is a part of a schedule in the past, with a mark of its own that rises with each of its claims, so that
/// its progress survives all nodes. Its runs have identities of their own: the watermark stays, and an instant that has
/// run before runs again. In a claim, the mark takes the place of the watermark in 5. Unlike an instant, a run of a
/// backfill needs no current revision of the controls, and is never skipped by the overlap rule: it is *busy* instead,
/// as it is while another run of the same backfill has not ended. The backfill is removed with its last instant.
///
/// # Payloads of triggers
/// A payload is stored beside the controls, so that no reader of the controls transfers it. It is kept while its
/// trigger waits and while its run is open, and every claim of an attempt returns it.
///
/// # Cancelled runs
/// [`JobCommand::Cancel`](crate::JobCommand::Cancel) marks open runs and raises the revision of the group's controls,
/// so that their nodes renew immediately and learn of it. The mark stays until the run has ended. A marked run is never
/// followed by another attempt: the end of its attempt finishes it, whatever [state](crate::AfterAttempt) the request
/// asks for, and a retry is answered *gone*. A leader ends a marked run that has no node.
///
/// # Instances
/// An instance is a job whose [`Definition`](crate::Definition) is in the ledger: it has a watermark from
/// [`add`](Self::add) on, and needs no registration. A claim names the revision of the definition, so no run starts
/// from a definition that has been changed or removed. When an instance that runs once has run, its definition is
/// removed, and its record is kept for the time in [`Once`](crate::Once).
#[async_trait]
pub trait RunLedger: Debug + Send + Sync + 'static {
    /// Estimates the current time of the server that keeps this group. Returns `None` before its first answer.
    fn server_now(&self, group: &GroupName) -> Option<UtcTime>;

    /// Registers jobs. The watermark of a new job, and the start of a schedule that is new to its job, are set to the
    /// server's current time. A leader repeats the registration every minute to show that its jobs are alive. Returns
    /// one answer per job, in order.
    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<RegisteredJob>>, BackendError>;

    /// Reads the answers that [`register`](Self::register) would give, without writing anything. Returns one answer per
    /// job, in order; `None` for an unknown job.
    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<UtcTime>>>, BackendError>;

    /// Claims a run so that the caller may start it.
    async fn claim(&self, request: ClaimRequest) -> Result<Reply<ClaimReply>, BackendError>;

    /// Renews the leases of runs, so that they do not become orphans. An attempt that has ended, or whose lease has
    /// ended, is not revived. Returns one answer per run, in order.
    async fn renew(
        &self,
        group: GroupName,
        runs: Vec<RenewRun>,
    ) -> Result<Reply<Vec<RunRenewal>>, BackendError>;

    /// Records the end of an attempt. Only its own claim can end it.
    async fn end(&self, request: EndRequest) -> Result<Reply<EndReply>, BackendError>;

    /// Lists the open runs of a group, ordered by job and run.
    async fn open_runs(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError>;

    /// Lists the last `max` entries of a job's history, newest first.
    async fn history(&self, job: JobId, max: usize) -> Result<Reply<Vec<Attempt>>, BackendError>;

    /// Sends a command for the whole fleet.
    async fn command(&self, job: JobId, command: JobCommand) -> Result<Reply<CommandReply>, BackendError>;

    /// Reads the controls of a group unless their revision is `known`.
    async fn controls(&self, group: GroupName, known: u64) -> Result<Reply<FleetControls>, BackendError>;

    /// Stores the descriptions of jobs and kinds for [`summary`](Self::summary). A job that is not registered is left
    /// out. No other operation reads them.
    async fn describe(&self, group: GroupName, jobs: Vec<JobDescription>) -> Result<Reply<()>, BackendError>;

    /// Reads the live nodes of a group, its kinds, and the schedule and the latest outcomes of each job, without writing
    /// anything.
    async fn summary(&self, group: GroupName) -> Result<Reply<GroupSummary>, BackendError>;

    /// Records that a node is alive. Reads the live nodes, the controls and some watermarks, all at one moment, and
    /// writes nothing else.
    async fn heartbeat(&self, request: HeartbeatRequest) -> Result<Reply<HeartbeatReply>, BackendError>;

    /// Adds an instance, or changes its definition. A new instance, or one whose schedule changes, starts now and never
    /// runs past instants, unless it runs once. A repeated request changes nothing.
    async fn add(&self, request: AddRequest) -> Result<Reply<AddReply>, BackendError>;

    /// Removes an instance. A repeated request changes nothing.
    async fn remove(&self, job: JobId, removal: Removal) -> Result<Reply<RemoveReply>, BackendError>;

    /// Reads the instances of a group that have changed since the revision `known`.
    async fn instances(&self, group: GroupName, known: u64) -> Result<Reply<Instances>, BackendError>;
}

#[async_trait]
impl<L: RunLedger + ?Sized> RunLedger for Arc<L> {
    fn server_now(&self, group: &GroupName) -> Option<UtcTime> {
        (**self).server_now(group)
    }
    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<RegisteredJob>>, BackendError> {
        (**self).register(group, jobs).await
    }
    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<UtcTime>>>, BackendError> {
        (**self).watermarks(group, jobs).await
    }
    async fn claim(&self, request: ClaimRequest) -> Result<Reply<ClaimReply>, BackendError> {
        (**self).claim(request).await
    }
    async fn renew(
        &self,
        group: GroupName,
        runs: Vec<RenewRun>,
    ) -> Result<Reply<Vec<RunRenewal>>, BackendError> {
        (**self).renew(group, runs).await
    }
    async fn end(&self, request: EndRequest) -> Result<Reply<EndReply>, BackendError> {
        (**self).end(request).await
    }
    async fn open_runs(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        (**self).open_runs(group).await
    }
    async fn history(&self, job: JobId, max: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        (**self).history(job, max).await
    }
    async fn command(&self, job: JobId, command: JobCommand) -> Result<Reply<CommandReply>, BackendError> {
        (**self).command(job, command).await
    }
    async fn controls(&self, group: GroupName, known: u64) -> Result<Reply<FleetControls>, BackendError> {
        (**self).controls(group, known).await
    }
    async fn describe(&self, group: GroupName, jobs: Vec<JobDescription>) -> Result<Reply<()>, BackendError> {
        (**self).describe(group, jobs).await
    }
    async fn summary(&self, group: GroupName) -> Result<Reply<GroupSummary>, BackendError> {
        (**self).summary(group).await
    }

    async fn heartbeat(&self, request: HeartbeatRequest) -> Result<Reply<HeartbeatReply>, BackendError> {
        (**self).heartbeat(request).await
    }

    async fn add(&self, request: AddRequest) -> Result<Reply<AddReply>, BackendError> {
        (**self).add(request).await
    }

    async fn remove(&self, job: JobId, removal: Removal) -> Result<Reply<RemoveReply>, BackendError> {
        (**self).remove(job, removal).await
    }

    async fn instances(&self, group: GroupName, known: u64) -> Result<Reply<Instances>, BackendError> {
        (**self).instances(group, known).await
    }
}
