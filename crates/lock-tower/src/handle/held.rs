//! Shared ownership of a request's lock.

use super::guard::{RequestGuard, RequestHold};
use crate::observer::{LayerEvent, Observers, elapsed};
use lock_core::{__private::lock, LostReason};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::time::Instant;
use tracing::Span;

/// The shared guard of a request. The response, and later its body, holds one share; a detached
/// handler holds another. The guard is released when the last share is dropped, or earlier through
/// the handler's [`LockHandle`](super::LockHandle), which holds a weak reference.
pub(crate) struct Held {
    guard: Mutex<Option<RequestGuard>>,
    hold: RequestHold,
    since: Option<Instant>,
    observers: Observers,
    /// Decided once: by the service that calls the handler, or by a loss before that.
    work: OnceLock<Work>,
}

/// The work under a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Begun,
    Prevented,
}

impl Held {
    /// Creates the shared guard of a request whose handler is called immediately.
    pub(crate) fn new(guard: RequestGuard, observers: Observers) -> Self {
        Self::with(guard, observers, OnceLock::from(Work::Begun))
    }

    /// Creates the shared guard of a request whose handler is called after [`begin_work`](Self::begin_work).
    pub(crate) fn before_work(guard: RequestGuard, observers: Observers) -> Self {
        Self::with(guard, observers, OnceLock::new())
    }

    fn with(guard: RequestGuard, observers: Observers, work: OnceLock<Work>) -> Self {
        let (hold, since) = (guard.hold(), observers.now());
        Self { guard: Mutex::new(Some(guard)), hold, since, observers, work }
    }

    /// Returns `true` if the handler may be called, and `false` if the lock was lost before.
    #[cfg(feature = "idempotency")]
    pub(super) fn begin_work(&self) -> bool {
        let begin = || if self.lost().is_none() { Work::Begun } else { Work::Prevented };
        *self.work.get_or_init(begin) == Work::Begun
    }

    /// Returns `true` if the handler was not called, and will not be.
    pub(super) fn prevent_work(&self) -> bool {
        *self.work.get_or_init(|| Work::Prevented) == Work::Prevented
    }

    pub(super) fn hold(&self) -> &RequestHold {
        &self.hold
    }

    /// Returns the observers of the request.
    #[cfg(feature = "idempotency")]
    pub(super) fn observers(&self) -> &Observers {
        &self.observers
    }

    /// Returns the span of the request.
    pub(crate) fn span(&self) -> &Span {
        self.observers.span()
    }

    /// Takes the guard, and notifies the observers that the hold has ended. Returns `None` after the first
    /// call.
    pub(super) fn take_guard(&self) -> Option<RequestGuard> {
        let guard = lock(&self.guard).take()?;
        self.ended(self.lost());
        Some(guard)
    }

    fn ended(&self, lost: Option<LostReason>) {
        if let Some(reason) = lost {
            self.observers.notify(|route| LayerEvent::Lost { route, reason });
        }
        let held = elapsed(self.since);
        self.observers.notify(|route| LayerEvent::Ended { route, held });
    }

    /// Drops a share, and releases the lock if it was the last. Returns the reason for the loss, if the lock was lost.
    pub(crate) fn release(share: Arc<Self>) -> Option<LostReason> {
        let lost = share.lost();
        if let Some(mut held) = Arc::into_inner(share)
            && let Some(guard) = held.own_guard()
        {
            held.ended(lost);
            guard.start_release();
        }
        lost
    }

    /// Takes the guard of a lock that nothing shares any more.
    fn own_guard(&mut self) -> Option<RequestGuard> {
        self.guard.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Releases the lock in the background, regardless of other shares.
    pub(crate) fn give_up(&self) {
        drop(self.take_guard());
    }

    /// Returns the reason for the loss, if the lock is lost. Checks the clock, since timers can fire
    /// late.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        self.hold.lost_reason()
    }
}

impl Drop for Held {
    /// Releases the guard in the background.
    fn drop(&mut self) {
        if let Some(guard) = self.own_guard() {
            self.ended(self.lost());
            drop(guard);
        }
    }
}
