//! The planner's commands, and their data.

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
