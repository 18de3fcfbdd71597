//! The run ledger trait, and connectors of stores that keep a ledger.

use crate::{
    control::{CommandReply, FleetControls, JobCommand},
    group::{GroupSummary, HeartbeatReply, HeartbeatRequest, JobDescription},
    ids::{GroupName, JobId},
    instance::{AddReply, AddRequest, InstanceDetail, Instances, InstancesFrom, Removal, RemoveReply},
    request::{
        ClaimReply, ClaimRequest, EndReply, EndRequest, RegisteredJob, Registration, RenewRun, RunRenewal,
    },
    run::{Attempt, OpenRun},
};
use async_trait::async_trait;
use lock_core::{
    LockError, Store,
    backend::{BackendError, Connector, Reply},
    clock::UtcTime,
};
use std::{fmt::Debug, sync::Arc};

/// A record of started runs, the nodes that ran them, and their outcomes.
///
/// The rules are pure functions in this crate ([`GroupLedger`](crate::GroupLedger)). The in-memory
/// ledger wraps them in a mutex, and `lock-testkit`'s conformance suite compares all other ledgers
/// with them. A store that cannot decide on its own, such as a quorum, does not implement this
/// trait.
///
/// # Contract
/// - **Every operation is atomic and safe to repeat.** A claim repeated with the same
///   [`ClaimId`](crate::ClaimId) is granted again with the same token while its lease lasts. A
///   trigger that is sent twice starts one run, unless that run was already dropped from the
///   history.
/// - **Decisions use the server's clock.** The caller's clock only determines when requests are
///   sent.
/// - **Values never decrease.** This applies to a job's watermark, a renewed run's expiry, the
///   revision of a group's controls, and fencing tokens, which follow the rules for lock tokens.
///   The exception is [`JobCommand::Reset`], with which an operator can lower a watermark.
/// - **Revisions survive data loss.** A revision is at least the server's current time in
///   milliseconds, so a revision from before a data loss never recurs. [`JobCommand::Reinstate`]
///   relies on this.
/// - **A claim locks its run.** Its lease starts when the claim is executed and is extended by
///   [`renew`](Self::renew). A caller that measures the lease from before it sent the request, on a
///   clock that includes suspended time, can determine locally when it no longer owns the run.
/// - **Data from later versions is preserved.** A reply with unknown fields or words can still be
///   decoded.
/// - Futures can be dropped at any await. Errors report whether the operation [may have been
///   applied](BackendError::applied), as for all backend operations.
///
/// # Order of the checks in a claim
/// 1. *repeat*: the run's open attempt has this claim id → claimed, with the same token and a
///    renewed lease, or *gone* if its lease has ended; the last skip has this claim id → skipped;
/// 2. *retry*: the request retries the run's open attempt, which failed or was interrupted,
///    orphaned or requeued, and the budget allows another one → claimed, with a new token and an
///    unchanged watermark;
/// 3. *unregistered*: the job has no watermark, so the data was lost;
/// 4. *paused*, *outdated*: the job's controls or definition differ from those read by the caller;
/// 5. *duplicate*, *superseded*: the run is open, its scheduled time or a later one is decided, or
///    the schedule started later; *partly decided*: the first time of a skip is decided, but not the
///    last one, so its count would contain a run that another node has started;
/// 6. *early*, *late*, *behind*: the scheduled time is in the future, the grace has ended, or the
///    preceding time is not decided;
/// 7. *skipped*, *busy*: the request is a skip, or other runs of the job are open and the overlap
///    rule rejects the run;
/// 8. *pool full*: the run's pool is full. Nothing is written, so the scheduled time stays
///    undecided, the trigger keeps waiting, and the previous attempt can still be retried. This
///    also applies to retries, after check 2;
/// 9. *claimed*: the watermark is raised, a token is issued and the run is recorded, in one step. A
///    skip also raises the watermark.
///
/// A triggered run has no scheduled time. Checks 5 and 6 and the controls in check 4 do not apply
/// to it. Instead, it needs a pending trigger that has not *expired*. The watermark is unchanged.
///
/// # Backfills
/// A backfill runs a job for past times of a schedule. It has its own mark, which each of its claims raises,
/// so its progress does not depend on any node. Its runs have separate identities, so the watermark
/// is unchanged, and a time whose scheduled run has already started is run again. In a claim, the
/// mark replaces the watermark in check 5. Unlike a scheduled run, a backfill run does not need the
/// current revision of the controls, and the overlap rule never skips it. It is *busy* instead, as
/// it is while another run of the same backfill is open. The backfill is removed when its last
/// scheduled time is claimed.
///
/// # Payloads
/// Payloads are stored separately from the controls and the definitions, so reading these does not
/// transfer any. The payload of a trigger is kept while the trigger waits and while its run is open,
/// that of an instance as long as its definition. Each claim of an attempt returns the payload of
/// the trigger if it has one, and otherwise the current one of the instance.
///
/// # Declined runs
/// A node that cannot read a run's payload [declines](crate::AfterAttempt::Decline) it. The controls tell all nodes
/// that a run was declined, so that another one can start it.
///
/// # Cancelled runs
/// [`JobCommand::Cancel`](crate::JobCommand::Cancel) marks open runs and raises the revision of the
/// group's controls, so that their nodes renew immediately and detect the cancellation. The mark
/// remains until the run ends. A marked run gets no further attempt: the end of its attempt
/// finishes the run, regardless of the requested [state](crate::AfterAttempt), and a retry returns
/// *gone*. If no node is running a marked run, a leader ends it.
///
/// # Instances
/// An instance is a job whose [`Definition`](crate::Definition) is stored in the ledger.
/// [`add`](Self::add) sets its watermark, and it needs no registration. A claim contains the
/// revision of the definition, so no run starts from a changed or removed definition. A changed
/// payload counts as a changed definition. After an
/// instance that runs once has run, its definition is removed, and its record is kept for the time
/// in [`Once`](crate::Once).
#[async_trait]
pub trait RunLedger: Debug + Send + Sync + 'static {
    /// Estimates the current time of the server that stores this group. Returns `None` before its
    /// first reply.
    fn server_now(&self, group: &GroupName) -> Option<UtcTime>;

    /// Registers jobs. Sets the watermark of a new job, and the start of a schedule that is new to
    /// its job, to the server's current time. A leader repeats the registration every minute to
    /// show that its jobs still exist. Returns one reply per job, in order.
    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<RegisteredJob>>, BackendError>;

    /// Reads the watermarks that [`register`](Self::register) would return, without writing
    /// anything. Returns one watermark per job, in order; `None` for an unknown job.
    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<UtcTime>>>, BackendError>;

    /// Claims a run so that the caller may start it.
    async fn claim(&self, request: ClaimRequest) -> Result<Reply<ClaimReply>, BackendError>;

    /// Renews the leases of runs, so that they do not become orphans. A run that has ended, or
    /// whose lease has ended, is not renewed. Returns one reply per run, in order.
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

    /// Executes a command for the entire fleet.
    async fn command(&self, job: JobId, command: JobCommand) -> Result<Reply<CommandReply>, BackendError>;

    /// Reads the controls of a group unless their revision is `known`.
    async fn controls(&self, group: GroupName, known: u64) -> Result<Reply<FleetControls>, BackendError>;

    /// Stores the descriptions of jobs and kinds for [`summary`](Self::summary). Unregistered jobs
    /// are ignored. No other operation reads the descriptions.
    async fn describe(&self, group: GroupName, jobs: Vec<JobDescription>) -> Result<Reply<()>, BackendError>;

    /// Reads a group's live nodes and kinds, and each job's schedule and latest outcomes, without
    /// writing anything.
    async fn summary(&self, group: GroupName) -> Result<Reply<GroupSummary>, BackendError>;

    /// Records that a node is alive, and atomically reads the live nodes, the controls and the
    /// requested watermarks. Writes nothing else.
    async fn heartbeat(&self, request: HeartbeatRequest) -> Result<Reply<HeartbeatReply>, BackendError>;

    /// Adds an instance, or changes its definition. A new instance, or one whose schedule changes,
    /// starts now and never runs for scheduled times that have already passed, unless it runs once.
    /// A repeated request changes nothing.
    async fn add(&self, request: AddRequest) -> Result<Reply<AddReply>, BackendError>;

    /// Removes an instance. A repeated request changes nothing.
    async fn remove(&self, job: JobId, removal: Removal) -> Result<Reply<RemoveReply>, BackendError>;

    /// Reads one instance with its payload. Returns `None` if there is no such instance.
    async fn instance(&self, job: JobId) -> Result<Reply<Option<InstanceDetail>>, BackendError>;

    /// Reads instances of a group: those that changed after a revision, or all of them page by page.
    async fn instances(
        &self,
        group: GroupName,
        from: InstancesFrom,
    ) -> Result<Reply<Instances>, BackendError>;
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

    async fn instance(&self, job: JobId) -> Result<Reply<Option<InstanceDetail>>, BackendError> {
        (**self).instance(job).await
    }

    async fn instances(
        &self,
        group: GroupName,
        from: InstancesFrom,
    ) -> Result<Reply<Instances>, BackendError> {
        (**self).instances(group, from).await
    }
}

/// A connector whose stores also keep a run ledger, over the same connections.
#[async_trait]
pub trait LedgerConnector: Connector {
    /// Connects once, for locks and for the ledger.
    ///
    /// # Errors
    /// Returns the same errors as [`Connector::connect`].
    async fn connect_with_ledger(&self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError>;

    /// Connects in the background, like [`Connector::connect_lazy`].
    ///
    /// # Errors
    /// Returns the same errors as [`Connector::connect_lazy`].
    fn connect_with_ledger_lazy(&self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError>;
}
