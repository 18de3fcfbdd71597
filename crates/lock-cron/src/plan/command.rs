//! The commands of the planner, with their data.

use crate::{observer::SkipReason, options::Overlap, schedule::Schedule, time::UtcTime};
use lock_core::LockName;
use lock_ledger::{CatchUp, ClaimId, ClaimReply, PoolLimit, RunId, Skip};
use uuid::Uuid;

/// A run to claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) job: LockName,
    pub(crate) run: RunId,
    pub(crate) catch_up: CatchUp,
    /// The overlap policy of this run: catch-up runs queue.
    pub(crate) overlap: Overlap,
    pub(crate) pool: Option<PoolLimit>,
    /// Set to record the run as skipped instead of starting it.
    pub(crate) skip: Option<Skip>,
    /// The previous scheduled time, if it may be undecided. Set in the claim of a node that may not
    /// be the leader.
    pub(crate) after: Option<UtcTime>,
    pub(crate) schedule: u64,
    pub(crate) revision: u64,
    /// The revision of the definition; 0 for a job in code.
    pub(crate) definition: u64,
    /// The claim id of an earlier request that may still be applied.
    pub(crate) in_doubt: Option<ClaimId>,
}

/// A command to the run loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Claim the run, or record it as skipped.
    Claim(Due),
    /// Ask the runs of this job on this node to end.
    CancelRunning(LockName),
    /// Register the job again, and read its watermark.
    Register(LockName),
    /// Read the controls.
    ReadControls,
    /// Withdraw a backfill without further scheduled times.
    CloseBackfill { job: LockName, id: Uuid },
    /// Count skipped runs.
    Skipped { job: LockName, reason: SkipReason, count: u32 },
}

/// The outcome of a [`Command::Claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimOutcome {
    /// The reply of the ledger.
    Answered(ClaimReply),
    /// The request failed; nothing was claimed.
    Failed,
}

/// The controls of a job that apply on this node.
#[derive(Debug, Clone)]
pub(crate) struct EffectiveControls {
    /// Their revision; 0 before the first command.
    pub(crate) revision: u64,
    pub(crate) paused: bool,
    /// The replacement schedule, or that of the program.
    pub(crate) schedule: Schedule,
}
