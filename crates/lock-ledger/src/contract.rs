//! The contract of a run ledger, and the bounds that all of them share.

use crate::{
    Attempt, ClaimRequest, Claimed, EndRequest, Ended, GroupName, JobId, KeepRun, KeptRun, OpenRun, Order,
    Ordered, Orders, Registered, Registration,
};
use async_trait::async_trait;
use lock_core::{
    ServerTime,
    backend::{BackendError, Reply},
};
use std::{fmt::Debug, sync::Arc, time::Duration};

/// The length of a job's history unless the scheduler chooses another one, in entries.
pub const HISTORY: u32 = 100;

/// The longest history of a job, in entries.
pub const LONGEST_HISTORY: u32 = 1000;

/// The number of triggers of a group that may wait.
pub const MOST_TRIGGERS: usize = 1000;

/// The number of triggers of one job that may wait.
pub const MOST_OF_A_JOB: usize = 100;

/// The number of schedules of a job whose beginnings are remembered, the latest ones.
pub const SCHEDULES: usize = 8;

/// The time after which a job that no leader has registered counts as removed, if the group had a leader meanwhile. When such
/// a job comes back, its schedule begins then.
pub const ABSENT: Duration = Duration::from_secs(600);

/// The record of what was started, by whom, and how it ended.
///
/// The rules are pure functions of this crate ([`GroupLedger`](crate::GroupLedger)); the in-memory ledger is those functions
/// behind a mutex, and every other one is compared with them by the conformance suite of `lock-testkit`. A store that cannot
/// decide alone, such as a quorum, does not implement it.
///
/// # Contract
/// - **Every operation is atomic, and repeating it is harmless.** A claim that is repeated with its [`ClaimId`](crate::ClaimId) is granted
///   again, with the same token, while its lease lasts. A trigger that is ordered twice starts once, as far as the history
///   goes back.
/// - **The server's clock decides**; the caller's clock only decides when to ask.
/// - **Nothing falls**: neither the watermark of a job, nor the expiry of a kept run, nor the fencing tokens, which follow the
///   rules of a lock's tokens. [`Order::Reset`] is the exception for the watermark, and an operator's word.
/// - **The claim is the lock of its run.** Its lease begins with the execution of the claim and is renewed by
///   [`keep`](Self::keep). A caller that measures the lease from the moment before it sent the request, on a clock that counts
///   suspended time, knows when the run is no longer its own without asking.
/// - **What a later version wrote is kept**: unknown fields and words make no answer unreadable.
/// - Futures may be dropped at any await, and errors say whether the operation
///   [may have been applied](BackendError::applied), as with every operation of a backend.
///
/// # A claim is decided in this order
/// 1. *repeat*: the open attempt of the run has this claim id → claimed, with the same token and a renewed lease, or *gone* if
///    its lease is over; the last skip has this claim id → skipped;
/// 2. *again*: the request names the open attempt of the run that failed, was interrupted, orphaned or given back, and its
///    budget allows another one → claimed, with a new token; the watermark stays;
/// 3. *unregistered*: the job has no watermark, so the data were lost;
/// 4. *paused*, *outdated*: the orders for the job are not those that the caller knows;
/// 5. *duplicate*, *superseded*: the instant is open or decided, a later one is decided, or the schedule began later;
/// 6. *early*: the instant has not come;
/// 7. *skipped*, *busy*: the request asks for a skip, or other runs of the job are open and the rule for overlaps refuses;
/// 8. *claimed*: the watermark is moved, a token drawn and the run recorded, in one step. A skip moves the watermark too.
///
/// A triggered run has no instant: in the place of 4 to 6 it needs a pending trigger that has not *expired*, and the watermark
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
    ) -> Result<Reply<Vec<Registered>>, BackendError>;

    /// Reads what [`register`](Self::register) would answer, and writes nothing; `None` for a job that is not known. One answer
    /// a job, in their order.
    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<ServerTime>>>, BackendError>;

    /// Asks to start a run.
    async fn claim(&self, request: ClaimRequest) -> Result<Reply<Claimed>, BackendError>;

    /// Keeps the runs of a group from being taken for orphans. One answer an item, in their order. An attempt that has
    /// ended, or whose time was over, is not revived.
    async fn keep(&self, group: GroupName, runs: Vec<KeepRun>) -> Result<Reply<Vec<KeptRun>>, BackendError>;

    /// Records how an attempt ended; only its own claim can.
    async fn end(&self, request: EndRequest) -> Result<Reply<Ended>, BackendError>;

    /// The runs of a group that have not ended, in the order of job and run.
    async fn open(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError>;

    /// The last entries of a job's history, the newest first: at most `most`.
    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError>;

    /// Gives an order for the whole fleet.
    async fn order(&self, job: JobId, order: Order) -> Result<Reply<Ordered>, BackendError>;

    /// The orders of a group, if they are others than those of revision `known`.
    async fn orders(&self, group: GroupName, known: u64) -> Result<Reply<Orders>, BackendError>;
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
    ) -> Result<Reply<Vec<Registered>>, BackendError> {
        (**self).register(group, jobs).await
    }
    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<ServerTime>>>, BackendError> {
        (**self).watermarks(group, jobs).await
    }
    async fn claim(&self, request: ClaimRequest) -> Result<Reply<Claimed>, BackendError> {
        (**self).claim(request).await
    }
    async fn keep(&self, group: GroupName, runs: Vec<KeepRun>) -> Result<Reply<Vec<KeptRun>>, BackendError> {
        (**self).keep(group, runs).await
    }
    async fn end(&self, request: EndRequest) -> Result<Reply<Ended>, BackendError> {
        (**self).end(request).await
    }
    async fn open(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        (**self).open(group).await
    }
    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        (**self).history(job, most).await
    }
    async fn order(&self, job: JobId, order: Order) -> Result<Reply<Ordered>, BackendError> {
        (**self).order(job, order).await
    }
    async fn orders(&self, group: GroupName, known: u64) -> Result<Reply<Orders>, BackendError> {
        (**self).orders(group, known).await
    }
}
