//! The planner, which decides which runs are due or missed, and which claims to send next. It performs no IO and reads
//! no clock: it takes `now` as an argument, draws claim ids with a function that it was given, and returns commands.
//!
//! ```text
//!  of each job              instant comes           claim sent                claimed, skipped, decided elsewhere
//!      decided up to `cursor` ────────▶ pending ──────────▶ in flight ─────────────────────────────────▶ decided
//!                                          ▲                   │  early · busy · outdated
//!                                          └───────────────────┘
//! ```
//!
//! The diagram shows a leader's plan. In addition, every node plans the runs of spread jobs that it may start
//! [on time](planned_job). If another node comes first for a scheduled time, the leader leaves the run to that
//! node for a moment, and then reads the watermark. If the run is still undecided, the leader claims it.
//! From then on, until the leader has caught up, no other node can claim the job's scheduled times.
//!
//! The events are: elected, resigned, registered and observed (each with the watermark), peers
//! read, controls changed, tick, claim completed, run ended. The commands are: claim or skip a run,
//! cancel a job's running runs, register a job, read the controls, withdraw a completed backfill,
//! report skipped runs.
//!
//! Invariants:
//! - no scheduled run or backfill is planned while its job is paused, and nothing is claimed while draining; without
//!   leadership, only on-time runs are claimed;
//! - no claim starts a run for which this node has no room, and a pool has at most one claim in flight;
//! - at most one claim of a job is in flight, and claims are sent in ascending order;
//! - a run that was decided or skipped is not claimed again under the same leadership;
//! - the number of pending runs and the work of a tick are bounded, regardless of the length of an outage.

mod missed;
mod pending;
mod planned_job;
mod planner;
mod room;

#[cfg(test)]
mod tests;

pub(crate) use missed::{Budget, previous};
pub(crate) use planned_job::PlannedBackfill;
pub(crate) use planner::Planner;
pub(crate) use room::{BUSY, NODE_LEASE, Peers};

use crate::{observer::SkipReason, schedule::Schedule};
use lock_core::LockName;
use lock_ledger::{ClaimId, ClaimReply, ClaimRequest, GroupName};
use std::time::Duration;
use uuid::Uuid;

/// The parts of a claim that are the same for all runs of a node.
#[derive(Debug, Clone)]
pub(crate) struct ClaimTerms {
    pub(crate) group: GroupName,
    pub(crate) node: String,
    pub(crate) lease: Duration,
    pub(crate) history: u32,
    /// Draws the id of a claim.
    pub(crate) draw: fn() -> ClaimId,
}

/// A due run to claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) request: Box<ClaimRequest>,
    /// Set if an earlier request with this claim id may still be applied.
    pub(crate) in_doubt: bool,
}

/// A command for the run loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Claim the run, or record it as skipped.
    Claim(Due),
    /// Ask the job's runs on this node to end.
    CancelRunning(LockName),
    /// Register the job again, and read its watermark.
    Register(LockName),
    /// Read the controls.
    ReadControls,
    /// Withdraw a backfill that has no further scheduled times.
    CloseBackfill { job: LockName, id: Uuid },
    /// Report skipped runs to the observers.
    Skipped { job: LockName, reason: SkipReason, count: u32 },
}

/// The outcome of a [`Command::Claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimOutcome {
    /// The ledger's reply.
    Answered(ClaimReply),
    /// The request failed; nothing was claimed.
    Failed,
}

/// The controls of a job that apply on this node.
#[derive(Debug, Clone)]
pub(crate) struct EffectiveControls {
    /// The revision of the controls; 0 before the first command.
    pub(crate) revision: u64,
    pub(crate) paused: bool,
    /// The replacement schedule, or the program's.
    pub(crate) schedule: Schedule,
}
