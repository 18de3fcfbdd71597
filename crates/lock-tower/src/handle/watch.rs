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
