//! A share of a lock that notices when the lock is lost.

use super::held::Held;
use crate::policy::OnLost;
use futures_util::{FutureExt, future::BoxFuture};
use lock_core::LostReason;
use std::{
    sync::Arc,
    task::{Context, Poll},
};

/// A share of a lock; dropping it gives the share up.
pub(crate) struct Watch {
    held: Arc<Held>,
    /// Completes when the lock is lost. `None` if the layer only signals a loss.
    lost: Option<BoxFuture<'static, LostReason>>,
}

impl Watch {
    pub(crate) fn new(held: Arc<Held>, on_lost: OnLost) -> Self {
        let lost = match on_lost {
            OnLost::Stop => Some(held.hold().lost().boxed()),
            OnLost::Signal => None,
        };
        Self { held, lost }
    }

    /// Runs `call` in the span of the request.
    pub(crate) fn in_span<T>(&self, call: impl FnOnce() -> T) -> T {
        self.held.span().in_scope(call)
    }

    /// Completes when the lock is lost, unless the layer only signals a loss. A release by the handler is no
    /// loss. Must not be polled after completion.
    pub(crate) fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<LostReason> {
        self.lost.as_mut().map_or(Poll::Pending, |lost| lost.poll_unpin(cx))
    }

    /// Returns why the lock is lost now, if it is: an answer that was made after the lease must not be sent.
    pub(crate) fn lost_now(&self) -> Option<LostReason> {
        self.lost.as_ref()?;
        self.held.lost()
    }
}
