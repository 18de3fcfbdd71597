//! The results of the run loop's tasks, which the loop handles as events.

use crate::{
    claim::ClaimedRun,
    job::Job,
    ledger_client::Answer,
    plan::{ClaimOutcome, Due},
    running::{HeldRun, RunKey},
};
use lock_core::{
    LockError, LockGuard,
    backend::{Applied, BackendError, BackendErrorKind, Reply},
    clock::{Moment, UtcTime},
};
use lock_ledger::{
    GroupSummary, HeartbeatReply, Instances, OpenRun, RegisteredJob, Registration, RunRenewal,
};
use std::sync::Arc;

/// A run, and its job as of the claim.
pub(super) type Claimed = Box<(Arc<Job>, ClaimedRun)>;

/// The result of a task.
pub(super) enum Effect {
    Elected(Box<Result<LockGuard, LockError>>),
    ElectionPanicked,
    Resigned,
    Registered {
        jobs: Vec<Registration>,
        answer: Answer<Vec<RegisteredJob>>,
    },
    HeartbeatAnswered {
        asked: Vec<Registration>,
        answer: Answer<Reply<HeartbeatReply>>,
    },
    Described,
    Reinstated,
    BackfillClosed,
    Left,
    InstancesRead(Answer<Instances>),
    WatermarksRead {
        jobs: Vec<Registration>,
        answer: Answer<Vec<Option<UtcTime>>>,
    },
    OpenRunsRead(Answer<Vec<OpenRun>>),
    SummaryRead(Answer<Reply<GroupSummary>>),
    Renewed {
        sent: Moment,
        runs: Vec<HeldRun>,
        answer: Answer<Vec<RunRenewal>>,
    },
    DueClaimed {
        due: Due,
        outcome: ClaimOutcome,
        claimed: Option<Claimed>,
    },
    TakenOver {
        key: RunKey,
        claimed: Option<Claimed>,
    },
    /// `declined` is the reason if this node could not read the payload.
    RunEnded {
        key: RunKey,
        declined: Option<String>,
    },
}

/// Returns the error for a panicked task, whose request may have been applied.
pub(super) fn panicked() -> BackendError {
    BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, "a scheduler task panicked")
}
