//! The results of the tasks of the run loop, which are its events.

use crate::{
    claim::ClaimedRun,
    ledger_client::Answer,
    plan::{ClaimOutcome, Due},
    running::{HeldRun, RunKey},
};
use lock_core::{
    LockError, LockGuard,
    backend::{Applied, BackendError, BackendErrorKind, Reply},
    clock::Moment,
};
use lock_ledger::{HeartbeatReply, OpenRun, RegisteredJob, Registration, RunRenewal};

/// The result of a task.
pub(super) enum Effect {
    Elected(Box<Result<LockGuard, LockError>>),
    ElectionPanicked,
    Resigned,
    Registered { jobs: Vec<Registration>, answer: Answer<Vec<RegisteredJob>> },
    HeartbeatAnswered { asked: Vec<Registration>, answer: Answer<Reply<HeartbeatReply>> },
    Described,
    Left,
    OpenRunsRead(Answer<Vec<OpenRun>>),
    Renewed { sent: Moment, runs: Vec<HeldRun>, answer: Answer<Vec<RunRenewal>> },
    DueClaimed { due: Due, outcome: ClaimOutcome, claimed: Option<Box<ClaimedRun>> },
    TakenOver { key: RunKey, claimed: Option<Box<ClaimedRun>> },
    RunEnded(RunKey),
}

/// Returns the error of a task that panicked; its request may have been applied.
pub(super) fn panicked() -> BackendError {
    BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, "a task of the scheduler panicked")
}
