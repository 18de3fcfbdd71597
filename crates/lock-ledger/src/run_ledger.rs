//! The contract of a run ledger.

use crate::{
    control::{CommandReply, FleetControls, JobCommand},
    ids::{GroupName, JobId},
    reply::{ClaimReply, EndReply, RegisteredJob, RunRenewal},
    request::{ClaimRequest, EndRequest, Registration, RenewRun},
    run::{Attempt, OpenRun},
};
use async_trait::async_trait;
use lock_core::{
    backend::{BackendError, Reply},
    clock::ServerTime,
};
use std::{fmt::Debug, sync::Arc};

/// The record of the runs that were started, by which node, and how they ended.
///
/// The rules are pure functions of this crate ([`GroupLedger`](crate::GroupLedger)). The in-memory ledger is those functions
/// behind a mutex, and the conformance suite of `lock-testkit` compares every other ledger with them. A store that cannot
/// decide alone, such as a quorum, does not implement this trait.
///
/// # Contract
/// - **Every operation is atomic, and repeating it is harmless.** A claim that is repeated with its
///   [`ClaimId`](crate::ClaimId) is granted again, with the same token, while its lease lasts. A trigger that is sent twice
///   starts once, as far as the history goes back.
/// - **The server's clock decides**; the caller's clock only decides when to ask.
/// - **Nothing falls**: neither the watermark of a job, nor the expiry of a renewed run, nor the revision of a group's
///   controls, nor the fencing tokens, which follow the rules of a lock's tokens. The exception is
///   [`JobCommand::Reset`], by which an operator lowers a watermark.
/// - **Revisions outlive the data.** A revision is at least the server's now in milliseconds, so that one that is given after
///   a loss of the data is none that a node knows from before.
/// - **The claim is the lock of its run.** Its lease begins with the execution of the claim and is extended by
///   [`renew`](Self::renew). A caller that measures the lease from the moment before it sent the request, on a clock that
///   counts suspended time, knows when the run is no longer its own without asking.
/// - **What a later version wrote is kept**: unknown fields and words make no answer unreadable.
/// - Futures may be dropped at any await, and errors say whether the operation
///   [may have been applied](BackendError::applied), as with every operation of a backend.
///
/// # A claim is decided in this order
/// 1. *repeat*: the open attempt of the run has this claim id → claimed, with the same token and a renewed lease, or *gone* if
///    its lease is over; the last skip has this claim id → skipped;
/// 2. *retry*: the request names the open attempt of the run that failed, was interrupted, orphaned or requeued, and its
///    budget allows another one → claimed, with a new token; the watermark stays;
/// 3. *unregistered*: the job has no watermark, so the data were lost;
/// 4. *paused*, *outdated*: the controls of the job are not those that the caller knows;
/// 5. *duplicate*, *superseded*: the instant is open or decided, a later one is decided, or the schedule began later;
/// 6. *early*: the instant has not come;
/// 7. *skipped*, *busy*: the request asks for a skip, or other runs of the job are open and the rule for overlaps refuses;
/// 8. *claimed*: the watermark is moved, a token drawn and the run recorded, in one step. A skip moves the watermark too.
///
/// A triggered run has no instant: in the place of 4 to 6 it needs a waiting trigger that has not *expired*, and the watermark
/// stays.
#[async_trait]
pub trait RunLedger: Debug + Send + Sync + 'static {
    /// Estimates the present time of the server that keeps this group, or returns `None` before its first answer.
    fn server_now(&self, group: &GroupName) -> Option<ServerTime>;

    /// Makes jobs known. The watermark of a new job, and the beginning of a schedule that is new to its job, are set to the
    /// server's now. A leader repeats it every minute, as a sign that its jobs are alive. One answer a job, in their order.
    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<RegisteredJob>>, BackendError>;

    /// Reads what [`register`](Self::register) would answer, and writes nothing; `None` for a job that is not known. One answer
    /// a job, in their order.
    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<ServerTime>>>, BackendError>;

    /// Claims a run: asks to start it.
    async fn claim(&self, request: ClaimRequest) -> Result<Reply<ClaimReply>, BackendError>;

    /// Renews the leases of runs, so that they do not become orphans. One answer an item, in their order. An attempt that has
    /// ended, or whose lease was over, is not revived.
    async fn renew(
        &self,
        group: GroupName,
        runs: Vec<RenewRun>,
    ) -> Result<Reply<Vec<RunRenewal>>, BackendError>;

    /// Records the end of an attempt; only its own claim can.
    async fn end(&self, request: EndRequest) -> Result<Reply<EndReply>, BackendError>;

    /// Lists the runs of a group that have not ended, in the order of job and run.
    async fn open_runs(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError>;

    /// Lists the last `max` entries of a job's history, the newest first.
    async fn history(&self, job: JobId, max: usize) -> Result<Reply<Vec<Attempt>>, BackendError>;

    /// Gives a command for the whole fleet.
    async fn command(&self, job: JobId, command: JobCommand) -> Result<Reply<CommandReply>, BackendError>;

    /// Reads the controls of a group, unless their revision is `known`.
    async fn controls(&self, group: GroupName, known: u64) -> Result<Reply<FleetControls>, BackendError>;
}

#[async_trait]
impl<L: RunLedger + ?Sized> RunLedger for Arc<L> {
    fn server_now(&self, group: &GroupName) -> Option<ServerTime> {
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
    ) -> Result<Reply<Vec<Option<ServerTime>>>, BackendError> {
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
}
