//! The lock of a request, its set of locks or its permit: its acquisition, its ownership, and the notice of its loss.

use crate::{
    observer::{LayerEvent, Observers, elapsed},
    policy::OnLost,
};
use futures_util::{FutureExt, future::BoxFuture};
use lock_core::{
    __private::lock,
    FencingToken, Hold, LockError, LockGuard, LostReason,
    future::AcquireFuture,
    permit::{AcquirePermit, Permit, kind},
    set::{LockSetGuard, SetHold},
};
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::{Context, Poll},
};
use tokio::time::Instant;
use tracing::Span;

/// The future that acquires the lock of a request, its set of locks or its permit.
pub(crate) enum Acquire {
    One(AcquireFuture),
    Set(BoxFuture<'static, Result<LockSetGuard, LockError>>),
    Permit(Box<AcquirePermit<kind::Plain>>),
}

impl Future for Acquire {
    type Output = Result<RequestGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::One(acquire) => Pin::new(acquire).poll(cx).map_ok(RequestGuard::One),
            Self::Set(acquire) => acquire.as_mut().poll(cx).map_ok(RequestGuard::Set),
            Self::Permit(acquire) => Pin::new(acquire).poll(cx).map_ok(RequestGuard::Permit),
        }
    }
}

/// The guard of a request's lock, of its set of locks or of its permit.
pub(crate) enum RequestGuard {
    One(LockGuard),
    Set(LockSetGuard),
    Permit(Permit),
}

impl RequestGuard {
    fn hold(&self) -> RequestHold {
        match self {
            Self::One(guard) => RequestHold::One(guard.hold()),
            Self::Set(guard) => RequestHold::Set(guard.hold()),
            Self::Permit(permit) => RequestHold::One(permit.hold()),
        }
    }

    /// Returns the fencing token, or `None` for a set, which has one token per name, and for a permit, which has no
    /// single holder.
    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        match self {
            Self::One(guard) => Some(guard.fencing_token()),
            Self::Set(_) | Self::Permit(_) => None,
        }
    }

    /// Starts the release, which continues in the background.
    fn start_release(self) {
        match self {
            Self::One(guard) => guard.start_release(),
            Self::Set(guard) => guard.start_release(),
            Self::Permit(permit) => permit.start_release(),
        }
    }
}

/// A view of the hold of a [`RequestGuard`].
pub(super) enum RequestHold {
    One(Hold),
    Set(SetHold),
}

impl RequestHold {
    /// Completes when a lock is lost.
    fn lost(&self) -> BoxFuture<'static, LostReason> {
        match self {
            Self::One(hold) => hold.lost().boxed(),
            Self::Set(hold) => hold.lost().map(|lost| lost.reason).boxed(),
        }
    }

    /// Returns the reason for the loss, if a lock is lost. Checks the clock, since timers can fire
    /// late.
    fn lost_reason(&self) -> Option<LostReason> {
        match self {
            Self::One(hold) => hold.lost_reason(),
            Self::Set(hold) => hold.first_lost().map(|lost| lost.reason),
        }
    }
}

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
    fn prevent_work(&self) -> bool {
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

/// A share of a lock. The lock is released with its last share.
pub(crate) struct Watch {
    held: Arc<Held>,
    on_lost: OnLost,
    /// `true` until the first check, if it follows the grant immediately.
    just_granted: bool,
    /// A future that completes when the lock is lost. Created on demand, since most handlers finish
    /// quickly.
    lost: Option<BoxFuture<'static, LostReason>>,
}

impl Watch {
    pub(crate) fn new(held: Arc<Held>, on_lost: OnLost) -> Self {
        Self { held, on_lost, just_granted: false, lost: None }
    }

    /// Creates a share for a handler whose first poll follows immediately, and therefore needs no check.
    pub(crate) fn just_granted(held: Arc<Held>, on_lost: OnLost) -> Self {
        Self { just_granted: true, ..Self::new(held, on_lost) }
    }

    /// Returns the span of the request.
    pub(crate) fn span(&self) -> Span {
        self.held.span().clone()
    }

    /// Returns the reason for the loss, if the lock is lost. Called before and after each poll of the work under the
    /// lock: the work must not begin after a loss, and a response produced after a loss must not be sent.
    pub(crate) fn check(watch: &mut Option<Self>) -> Option<LostReason> {
        let watch = watch.as_mut()?;
        match watch.on_lost {
            OnLost::Stop if !std::mem::take(&mut watch.just_granted) => watch.held.lost(),
            OnLost::Stop | OnLost::Signal => None,
        }
    }

    /// Completes when the lock is lost. Polled while the work under the lock is pending. Stays pending without a lock,
    /// after a release by the handler, and if the layer only signals a loss. Must not be polled after completion.
    pub(crate) fn poll_lost(watch: &mut Option<Self>, cx: &mut Context<'_>) -> Poll<LostReason> {
        match watch {
            Some(Self { held, lost, on_lost: OnLost::Stop, .. }) => {
                lost.get_or_insert_with(|| held.hold().lost()).poll_unpin(cx)
            }
            _ => Poll::Pending,
        }
    }

    /// Returns `true` if the lock was lost before the handler was called. The handler is then never called.
    pub(crate) fn prevented_work(watch: Option<&Self>) -> bool {
        watch.is_some_and(|watch| watch.held.prevent_work())
    }

    /// Drops the share, and releases the lock here if it was the last. A plain drop would leave the
    /// release to a factory task. Returns the reason for a loss, like [`check`](Self::check).
    pub(crate) fn release(self) -> Option<LostReason> {
        drop(self.lost);
        Held::release(self.held).filter(|_| self.on_lost == OnLost::Stop)
    }
}
