//! The run ledger, which lets a scheduler start each run only once.
//!
//! A lock that is held only while a job runs does not prevent a second run, because the next node
//! finds the lock free shortly afterwards and runs the job again. The ledger is a record that
//! outlives the run. For each job, it stores a *watermark*: the latest scheduled time that has been
//! *decided*, that is, claimed or skipped.
//!
//! [`RunLedger`] is the trait. [`MemoryLedger`] implements it in memory; stores on a server
//! implement it in their own crates. Applications use it through `lock-cron`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod backfill;
mod connector;
mod control;
mod heartbeat;
mod ids;
mod instance;
mod limits;
mod memory;
mod reply;
mod request;
mod rules;
mod run;
mod run_ledger;
mod summary;

pub use backfill::{Backfill, BackfillRequest};
pub use connector::LedgerConnector;
pub use control::{CommandReply, FleetControls, JobCommand, JobControls, PauseNote, Trigger};
pub use heartbeat::{HeartbeatReply, HeartbeatRequest, LiveNode};
pub use ids::{ClaimId, GroupName, JobId, ParseIdError, RunId};
pub use instance::{
    AddReply, AddRequest, Definition, Instance, InstanceDetail, Instances, InstancesFrom, Once, Removal,
    RemoveReply,
};
pub use limits::{
    ABSENT_AFTER, CHANGE_LIFE, DEFAULT_HISTORY, MAX_BACKFILLS, MAX_BACKFILLS_PER_JOB, MAX_CHANGES,
    MAX_DECLINES, MAX_HISTORY, MAX_INSTANCE_PAYLOADS, MAX_INSTANCES, MAX_INSTANCES_READ, MAX_SCHEDULES,
    MAX_TRIGGER_PAYLOADS, MAX_TRIGGERS, MAX_TRIGGERS_PER_JOB, RECENT_OUTCOMES,
};
#[doc(no_inline)]
pub use lock_core::clock::UtcTime;
pub use memory::MemoryLedger;
pub use reply::{ClaimReply, EndReply, JobStatus, RegisteredJob, RunRenewal};
pub use request::{
    AfterAttempt, ClaimRequest, EndRequest, OverlapRule, PoolLimit, Registration, RenewRun, RetryOf, Skip,
};
pub use rules::GroupLedger;
pub use run::{Attempt, CatchUp, OpenRun, RunOutcome, RunState};
pub use run_ledger::RunLedger;
pub use summary::{GroupSummary, JobDescription, JobSummary};

/// The README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
