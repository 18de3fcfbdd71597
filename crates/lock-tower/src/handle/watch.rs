//! A share of a lock that detects the loss of the lock.

use super::held::Held;
use crate::policy::OnLost;
use futures_util::{FutureExt, future::BoxFuture};
use lock_core::LostReason;
use std::{
    sync::Arc,
    task::{Context, Poll},
};
use tracing::Span;

/// A share of a lock. The lock is released with its last share.
pub(crate) struct Watch {
    held: Arc<Held>,
    on_lost: OnLost,
    /// `true` until the first poll of a handler that follows the grant immediately.
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

    /// Completes when the lock is lost, unless the layer only signals a loss. A release by the handler is not a loss.
    /// Must not be polled after completion.
    pub(crate) fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<LostReason> {
        match self.on_lost {
            OnLost::Stop => self.lost.get_or_insert_with(|| self.held.hold().lost()).poll_unpin(cx),
            OnLost::Signal => Poll::Pending,
        }
    }

    /// Polls `work`, or returns the reason if the lock is lost. If `work` is pending, its task is also woken by a
    /// loss. [`lost_now`](Self::lost_now) reports a loss that occurs while `work` is being polled.
    pub(crate) fn poll_under<T>(
        watch: &mut Option<Self>,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, LostReason>> {
        let Some(watch) = watch else { return work(cx).map(Ok) };
        // Also checked at the first poll of a body, which may come long after the head.
        if !std::mem::take(&mut watch.just_granted)
            && let Some(reason) = watch.lost_now()
        {
            return Poll::Ready(Err(reason));
        }
        match work(cx) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => watch.poll_lost(cx).map(Err),
        }
    }

    /// Returns the reason for the loss, if the lock is lost. A response produced after the loss must
    /// not be sent.
    pub(crate) fn lost_now(&self) -> Option<LostReason> {
        match self.on_lost {
            OnLost::Stop => self.held.lost(),
            OnLost::Signal => None,
        }
    }

    /// Drops the share, and releases the lock here if it was the last. A plain drop would leave the
    /// release to a factory task. Returns the reason for a loss, like [`lost_now`](Self::lost_now).
    pub(crate) fn release(self) -> Option<LostReason> {
        drop(self.lost);
        Held::release(self.held).filter(|_| self.on_lost == OnLost::Stop)
    }
}
