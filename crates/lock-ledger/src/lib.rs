//! The run ledger: the record by which a scheduler starts each run once.
//!
//! A lock that is held only while a job runs is no protection: the next node finds it free a moment later and runs the job
//! again. The ledger is a record that outlives the run. For each job it is one number, the *watermark*: the latest instant
//! that was decided.
//!
//! [`RunLedger`] is the contract; [`MemoryLedger`] keeps it in this process's memory; stores on a server implement it in
//! their own crates. Applications use it through `lock-cron`.

mod connect;
mod contract;
mod ids;
mod memory;
mod reply;
mod request;
mod rules;

pub use connect::LedgerConnector;
pub use contract::{ABSENT, HISTORY, LONGEST_HISTORY, MOST_OF_A_JOB, MOST_TRIGGERS, RunLedger, SCHEDULES};
pub use ids::{ClaimId, ForeignEntry, GroupName, JobId, RunId};
pub use memory::MemoryLedger;
pub use reply::{
    Attempt, Claimed, Ended, JobOrders, KeptRun, Known, OpenRun, Ordered, Orders, Registered, RunOutcome,
    RunState, Trigger,
};
pub use request::{
    Again, CatchUp, ClaimRequest, EndRequest, KeepRun, Order, OverlapRule, Registration, Skip, Then,
};
pub use rules::GroupLedger;
