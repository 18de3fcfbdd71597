//! The run ledger: what a store must be able to do so that a scheduler starts each run once.
//!
//! A lock that is held only while a job runs is no protection: the next node finds it free a moment later, and runs the job
//! again. What protects is a record that outlives the run. For each job that is one number, the *watermark*: the latest
//! instant that was decided.

mod ids;
mod reply;
mod request;

pub use ids::{ClaimId, ForeignEntry, GroupName, JobId, RunId};
pub use reply::{
    Attempt, Claimed, Ended, JobOrders, KeptRun, Known, OpenRun, Ordered, Orders, Registered, RunOutcome,
    RunState, Trigger,
};
pub use request::{Again, CatchUp, ClaimRequest, EndRequest, KeepRun, Order, OverlapRule, Then};

use super::{BackendError, Reply};
use crate::name::LockName;
use async_trait::async_trait;

/// How many attempts of a job are remembered.
pub const HISTORY: usize = 100;

/// How many triggers of a group may wait to be carried out.
pub const MOST_TRIGGERS: usize = 1000;

/// The record of what was started, by whom, and how it ended; reached through [`Backend::ledger`](super::Backend::ledger).
///
/// As with [`Backend`](super::Backend), the rules are pure functions of this crate; the in-memory ledger is those functions
/// behind a mutex, every other one is compared with them by the conformance suite of `lock-testkit`.
///
/// # Contract
/// - **Every operation is atomic, and repeating it is harmless**: a claim that is repeated with its [`ClaimId`] is given its
///   first answer again, whatever happened since, and an order to trigger is carried out once, however often it is
///   delivered, as far as the [history](HISTORY) goes back.
/// - **The server's clock decides**, that of the caller only when to ask.
/// - **Nothing falls**: neither the watermark of a job, nor its epoch, nor the expiry of a run, nor the fencing tokens, which
///   follow the rules of a lock's tokens.
/// - Futures may be dropped at any await, and errors say whether the operation
///   [may have been applied](BackendError::applied), as with every operation of a backend.
///
/// # A claim is decided in this order
/// 1. *repeat*: this claim id was answered before → the same answer;
/// 2. *again*: the request names the claim of an attempt that failed, or that was orphaned, of this very run, and has attempts
///    left → claimed, with the next attempt and a new token; the watermark stays;
/// 3. *unregistered*: there is no watermark: the data were lost;
/// 4. *fenced*: another leader, of a later epoch, was here;
/// 5. *paused*, *outdated*: the orders for the job are others than the caller knows;
/// 6. *duplicate*, *superseded*: this instant, or a later one, was decided before;
/// 7. *early*: its instant has not come yet;
/// 8. *skipped*, *busy*: other runs of the job are open, and the rule for overlaps says so;
/// 9. *claimed*: the watermark is moved, the epoch stored, a token drawn, the run recorded; in one step.
///
/// A run that was triggered by hand has no instant: it needs a pending trigger in the place of 5 to 7, and the watermark stays.
#[async_trait]
pub trait RunLedger: Send + Sync {
    /// Makes jobs known: their watermark is set to the server's now if there is none. One answer a job, in their order.
    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<LockName>,
    ) -> Result<Reply<Vec<Registered>>, BackendError>;

    /// Asks to start a run.
    async fn claim(&self, request: ClaimRequest) -> Result<Reply<Claimed>, BackendError>;

    /// Keeps the runs of a group from being taken for orphans. One answer an item, in their order. An attempt that has
    /// ended, or whose time was over, is not revived.
    async fn keep(&self, group: GroupName, runs: Vec<KeepRun>) -> Result<Reply<Vec<KeptRun>>, BackendError>;

    /// Records how an attempt ended; only its own claim can.
    async fn end(&self, request: EndRequest) -> Result<Reply<Ended>, BackendError>;

    /// The runs of a group that have not ended, in the order of job and run.
    async fn open(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError>;

    /// The last attempts of a job that have ended or were skipped, the newest first: at most `most`, and at most [`HISTORY`].
    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError>;

    /// Gives an order for the whole fleet.
    async fn order(&self, job: JobId, order: Order) -> Result<Reply<Ordered>, BackendError>;

    /// The orders of a group, if they are others than those of revision `known`.
    async fn orders(&self, group: GroupName, known: u64) -> Result<Reply<Orders>, BackendError>;
}
