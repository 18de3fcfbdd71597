//! Keeps a lock and notices when it is lost.

use super::held::Held;
use crate::policy::OnLost;
use futures_util::{FutureExt, future::BoxFuture};
use lock_core::LostReason;
use std::{
    sync::Arc,
    task::{Context, Poll},
};

/// Dropping it gives up its share of the lock.
pub(crate) struct Watch {
    held: Arc<Held>,
    /// What says so; nobody asks if the layer only signals.
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

    /// Completes when the lock is lost, if that matters to this layer; a release by the handler is no loss. Must not be
    /// polled again then.
    pub(crate) fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<LostReason> {
        self.lost.as_mut().map_or(Poll::Pending, |lost| lost.poll_unpin(cx))
    }

    /// Whether it is lost now: an answer must not go out that was made after the lease.
    pub(crate) fn lost_now(&self) -> Option<LostReason> {
        self.lost.as_ref()?;
        self.held.lost()
    }
}
