//! A request of a machine to the store, and the event for its reply.

use crate::{
    backend::{
        Applied, BackendError, BackendErrorKind, Operation, OperationReply, acquired, released, renewed,
    },
    machine::{Event, Failure, WatchAnswer},
    time::Moment,
};
use std::time::Duration;

/// A request of a machine.
#[derive(Debug)]
pub(super) enum Request {
    Operation {
        operation: Operation,
        timeout: Duration,
        /// The time at which the machine requested it.
        sent: Moment,
    },
    Watch,
    Unwatch,
}

/// The way in which a request is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IoPolicy {
    /// By the caller, in place.
    Inline,
    /// By the keeper: the caller is being dropped, or must not wait.
    Deferred,
    /// Not at all: no keeper is left, and leases expire by themselves.
    Discard,
}

impl Request {
    /// Returns the event for a request that was never submitted.
    pub(super) fn unknown(&self) -> Event {
        match self {
            Self::Operation { operation, sent, .. } => {
                let error =
                    BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, "not submitted");
                event(operation, *sent, Err(error), |error| Failure::from(&error))
            }
            Self::Watch => Event::Watched(WatchAnswer::Failed),
            Self::Unwatch => Event::Unwatched(WatchAnswer::Failed),
        }
    }
}

/// Returns the event for the reply to an operation. `failure` reduces an error to the part that the machine needs.
pub(super) fn event(
    operation: &Operation,
    sent: Moment,
    reply: OperationReply,
    failure: impl Fn(BackendError) -> Failure,
) -> Event {
    let lease = operation.lease().number();
    match operation {
        Operation::Acquire(_) => {
            Event::Acquired { lease, outcome: reply.and_then(acquired).map_err(failure) }
        }
        Operation::Renew(_) => {
            Event::Renewed { lease, sent, outcome: reply.and_then(renewed).map_err(failure) }
        }
        Operation::Release(request) => Event::Released {
            lease,
            depth_left: request.depth_left,
            outcome: reply.and_then(released).map_err(failure),
        },
    }
}
