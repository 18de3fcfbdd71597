//! This node's leadership.

use lock_core::{LockGuard, LostReason};
use std::{future::Future, pin::Pin};

pub(super) struct Leadership {
    pub(super) guard: LockGuard,
    lost: Pin<Box<dyn Future<Output = LostReason> + Send>>,
}

impl Leadership {
    pub(super) fn new(guard: LockGuard) -> Self {
        Self { lost: Box::pin(guard.lost()), guard }
    }
}

/// Completes when the leadership is lost. Never completes if this node does not lead.
pub(super) async fn lost(leadership: &mut Option<Leadership>) -> LostReason {
    match leadership {
        Some(leadership) => leadership.lost.as_mut().await,
        None => std::future::pending().await,
    }
}
