//! The planner's commands, and their data.

use crate::{observer::SkipReason, schedule::Schedule, time::UtcTime};
use lock_core::LockName;
use lock_ledger::{CatchUp, ClaimId, ClaimReply, OverlapRule, PoolLimit, RunId, Skip};
use uuid::Uuid;

/// A run to claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) job: LockName,
    pub(crate) run: RunId,
    pub(crate) catch_up: CatchUp,
    /// The overlap rule for this run. Catch-up runs queue, regardless of the job's policy.
    pub(crate) overlap: OverlapRule,
    pub(crate) pool: Option<PoolLimit>,
    /// Set to record the run as skipped instead of starting it.
    pub(crate) skip: Option<Skip>,
    /// The previous scheduled time, if it may be undecided. Set in the claim of a node that may not
    /// be the leader.
    pub(crate) after: Option<UtcTime>,
    /// The end of the grace, unless the run makes up for a missed one or waits for other runs.
    pub(crate) not_after: Option<UtcTime>,
    pub(crate) schedule: u64,
    pub(crate) revision: u64,
    /// The revision of the definition; 0 for a job in code.
    pub(crate) definition: u64,
    /// The claim id of an earlier request that may still be applied.
    pub(crate) in_doubt: Option<ClaimId>,
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
