//! One operation on the store, as data.

use super::entry::{Errors, LockEntry};
use crate::{
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, BackendError, BackendErrorKind, NotifyWaiters,
        ReleaseRequest, Released, RenewRequest, Renewed, Reply,
    },
    ids::{LeaseId, LeaseNumber, ProcessId},
    machine::{Event, Failure, WatchAnswer},
    sync::lock,
    terms::Terms,
    time::{Moment, UtcTime},
};
use std::{sync::Arc, time::Duration};

/// An operation that a machine requested.
#[derive(Debug, Clone)]
pub(super) enum Op {
    TryAcquire { lease: LeaseNumber, terms: Terms, not_after: UtcTime, mode: AcquireMode },
    Renew { lease: LeaseNumber, terms: Terms, not_after: UtcTime, sent: Moment },
    Release { lease: LeaseNumber, depth_left: u32, notify: NotifyWaiters, timeout: Duration },
    Watch,
    Unwatch,
}

/// Events and the entries to which they belong.
pub(super) type Answers = Vec<(Arc<LockEntry>, Event)>;

/// The way in which an operation is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IoPolicy {
    /// By the caller, in place.
    Inline,
    /// By the worker: the caller is being dropped, or must not wait.
    Deferred,
    /// Not at all: there is no worker left, and leases expire by themselves.
    Discard,
}

impl Op {
    /// Returns the event for an operation that was never answered.
    pub(super) fn unknown(&self) -> Event {
        let failure = Failure::UNKNOWN;
        match *self {
            Self::TryAcquire { lease, .. } => Event::Acquired { lease, outcome: Err(failure) },
            Self::Renew { lease, sent, .. } => Event::Renewed { lease, sent, outcome: Err(failure) },
            Self::Release { lease, depth_left, .. } => {
                Event::Released { lease, depth_left, outcome: Err(failure) }
            }
            Self::Watch => Event::Watched(WatchAnswer::Failed),
            Self::Unwatch => Event::Unwatched(WatchAnswer::Failed),
        }
    }

    /// Returns the operation's timeout, or `other` if the operation does not belong to a lease.
    pub(super) fn timeout(&self, other: Duration) -> Duration {
        match self {
            Self::TryAcquire { terms, .. } | Self::Renew { terms, .. } => terms.operation_timeout,
            Self::Release { timeout, .. } => *timeout,
            Self::Watch | Self::Unwatch => other,
        }
    }

    /// Stores the error for waiters and observers; the machine only needs its kind.
    pub(super) fn keep_error(&self, entry: &LockEntry, error: &Arc<BackendError>) {
        let errors = |f: fn(&mut Errors) -> &mut Option<Arc<BackendError>>| {
            // Dropped after the mutex is released.
            let before = f(&mut lock(&entry.state).errors).replace(error.clone());
            drop(before);
        };
        match self {
            Self::TryAcquire { .. } => errors(|errors| &mut errors.acquire),
            Self::Renew { .. } => errors(|errors| &mut errors.renewal),
            Self::Release { .. } | Self::Watch | Self::Unwatch => {}
        }
    }

    /// Returns the request to the store; `None` for subscriptions.
    pub(super) fn request(&self, process: ProcessId, entry: &LockEntry) -> Option<Request> {
        let name = entry.name.clone();
        Some(match self {
            Self::TryAcquire { lease, terms, not_after, mode } => Request::Acquire(AcquireRequest {
                name,
                lease: LeaseId::new(process, *lease),
                duration: terms.lease,
                not_after: *not_after,
                mode: *mode,
                retention: terms.retention,
            }),
            Self::Renew { lease, terms, not_after, .. } => Request::Renew(RenewRequest {
                name,
                lease: LeaseId::new(process, *lease),
                duration: terms.lease,
                not_after: *not_after,
            }),
            Self::Release { lease, depth_left, notify, .. } => Request::Release(ReleaseRequest {
                name,
                lease: LeaseId::new(process, *lease),
                depth_left: *depth_left,
                notify: *notify,
            }),
            Self::Watch | Self::Unwatch => return None,
        })
    }

    /// Returns the event for the reply to an acquire. For any other kind of operation, the outcome is unknown.
    pub(super) fn acquired(&self, outcome: Result<Reply<Acquired>, Failure>) -> Event {
        match *self {
            Self::TryAcquire { lease, .. } => Event::Acquired { lease, outcome },
            _ => self.unknown(),
        }
    }

    /// Returns the event for the reply to a renewal.
    pub(super) fn renewed(&self, outcome: Result<Reply<Renewed>, Failure>) -> Event {
        match *self {
            Self::Renew { lease, sent, .. } => Event::Renewed { lease, sent, outcome },
            _ => self.unknown(),
        }
    }

    /// Returns the event for the reply to a release.
    pub(super) fn released(&self, outcome: Result<Reply<Released>, Failure>) -> Event {
        match *self {
            Self::Release { lease, depth_left, .. } => Event::Released { lease, depth_left, outcome },
            _ => self.unknown(),
        }
    }

    /// Stores the error, if any, and returns the part of the reply that the machine needs.
    pub(super) fn outcome<T>(
        &self,
        entry: &LockEntry,
        answer: Result<Reply<T>, BackendError>,
    ) -> Result<Reply<T>, Failure> {
        answer.map_err(|error| {
            let failure = Failure::from(&error);
            self.keep_error(entry, &Arc::new(error));
            failure
        })
    }
}

/// A request to the store.
pub(super) enum Request {
    Acquire(AcquireRequest),
    Renew(RenewRequest),
    Release(ReleaseRequest),
}

/// Creates the error for an operation that was not answered in time.
pub(super) fn timed_out(timeout: Duration) -> Arc<BackendError> {
    Arc::new(BackendError::new(
        BackendErrorKind::Timeout,
        Applied::Unknown,
        format!("the store did not reply within {timeout:?}"),
    ))
}
