//! The slots in which a waiting acquire and a waiting release find their results.

use super::hold_state::HoldState;
use crate::{
    backend::BackendError,
    machine::{Refusal, ReleaseAnswer},
    time::Moment,
};
use std::{sync::Arc, task::Waker};

/// The slot of a waiting acquire.
#[derive(Debug)]
pub(super) enum WaiterSlot {
    Waiting(Option<Waker>),
    /// The result and its time.
    Ready(AcquireResult, Moment),
}

/// The result of a wait.
#[derive(Debug)]
pub(crate) enum AcquireResult {
    Granted(Arc<HoldState>),
    Refused(Refusal, Option<Arc<BackendError>>),
}

impl WaiterSlot {
    /// Stores the result. The caller releases its mutex before it wakes the returned waker.
    pub(super) fn set(&mut self, result: AcquireResult, now: Moment) -> Option<Waker> {
        match std::mem::replace(self, Self::Ready(result, now)) {
            Self::Waiting(waker) => waker,
            Self::Ready(..) => None,
        }
    }

    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        match self {
            Self::Waiting(waker) => waker.take(),
            Self::Ready(..) => None,
        }
    }
}

/// The slot of a waiting release.
#[derive(Debug)]
pub(super) enum ReleaseSlot {
    Waiting(Option<Waker>),
    Answered(ReleaseAnswer),
}

impl ReleaseSlot {
    /// Stores the reply. The caller releases its mutex before it wakes the returned waker.
    pub(super) fn set(&mut self, answer: ReleaseAnswer) -> Option<Waker> {
        match std::mem::replace(self, Self::Answered(answer)) {
            Self::Waiting(waker) => waker,
            Self::Answered(_) => None,
        }
    }

    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        match self {
            Self::Waiting(waker) => waker.take(),
            Self::Answered(_) => None,
        }
    }
}
