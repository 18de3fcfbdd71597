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

mod control;
mod group;
mod ids;
mod instance;
mod limits;
mod memory;
mod request;
mod rules;
mod run;
mod run_ledger;
#[cfg(feature = "__stored")]
#[doc(hidden)]
pub mod stored;

pub use control::{
    Backfill, BackfillRequest, CommandReply, FleetControls, JobCommand, JobControls, PauseNote, Trigger,
};
pub use group::{GroupSummary, HeartbeatReply, HeartbeatRequest, JobDescription, JobSummary, LiveNode};
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
pub use request::{
    AfterAttempt, ClaimReply, ClaimRequest, EndReply, EndRequest, JobStatus, OverlapRule, PoolLimit,
    RegisteredJob, Registration, RenewRun, RetryOf, RunRenewal, Skip,
};
pub use rules::GroupLedger;
pub use run::{Attempt, CatchUp, OpenRun, RunOutcome, RunState, StartedRun};
pub use run_ledger::{LedgerConnector, RunLedger};

/// The README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
