//! A share of a lock that notices a loss of the lock.

use super::held::Held;
use crate::policy::OnLost;
use futures_util::{FutureExt, future::BoxFuture};
use lock_core::LostReason;
use std::{
    sync::Arc,
    task::{Context, Poll},
};
use tracing::Span;

/// A share of a lock, which is released with the last share.
pub(crate) struct Watch {
    held: Arc<Held>,
    on_lost: OnLost,
    /// Completes when the lock is lost. Created on demand: most handlers are never pending for long.
    lost: Option<BoxFuture<'static, LostReason>>,
}

impl Watch {
    pub(crate) fn new(held: Arc<Held>, on_lost: OnLost) -> Self {
        Self { held, on_lost, lost: None }
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

    /// Polls `work`, unless the lock is lost. While `work` is pending, it completes when the lock is lost. A loss
    /// while `work` runs is reported by [`lost_now`](Self::lost_now).
    pub(crate) fn poll_under<T>(
        watch: &mut Option<Self>,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, LostReason>> {
        let Some(watch) = watch else { return work(cx).map(Ok) };
        // Checked at the first poll of a body as well, which may come long after the head.
        if let Some(reason) = watch.lost_now() {
            return Poll::Ready(Err(reason));
        }
        match work(cx) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => watch.poll_lost(cx).map(Err),
        }
    }

    /// Returns the reason of a loss, if the lock is lost now: a response made after the lease must not be sent.
    pub(crate) fn lost_now(&self) -> Option<LostReason> {
        match self.on_lost {
            OnLost::Stop => self.held.lost(),
            OnLost::Signal => None,
        }
    }

    /// Drops the share, and releases the lock here if it was the last. A plain drop would leave the release to a task
    /// of the factory. Returns the reason of a loss, as [`lost_now`](Self::lost_now) does.
    pub(crate) fn release(self) -> Option<LostReason> {
        drop(self.lost);
        Held::release(self.held).filter(|_| self.on_lost == OnLost::Stop)
    }
}
