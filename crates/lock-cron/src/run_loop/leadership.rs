//! This node's leadership.

use lock_core::{LockGuard, LostReason};
use std::{future::Future, pin::Pin, time::Duration};
use tokio::time::Instant;

/// The time for which runs that only the leader may start must have waited for room before a node with room is to lead.
const ROOM_PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Leadership {
    pub(super) guard: LockGuard,
    since: Instant,
    /// The time since which each heartbeat has shown a run that waits for room, and another node with room.
    crowded_since: Option<Instant>,
    lost: Pin<Box<dyn Future<Output = LostReason> + Send>>,
}

impl Leadership {
    pub(super) fn new(guard: LockGuard) -> Self {
        Self { lost: Box::pin(guard.lost()), guard, since: Instant::now(), crowded_since: None }
    }

    /// Records whether runs wait here for room that another node has. Returns `true` if that node is to lead. A change
    /// of the leader costs more than a short wait, so the leadership is kept for at least `lease`.
    pub(super) fn is_crowded(&mut self, crowded: bool, lease: Duration) -> bool {
        let now = Instant::now();
        self.crowded_since = crowded.then(|| self.crowded_since.unwrap_or(now));
        let waited = self.crowded_since.is_some_and(|since| now - since >= ROOM_PATIENCE);
        waited && now - self.since >= lease
    }
}

/// Completes when the leadership is lost. Never completes if this node does not lead.
pub(super) async fn lost(leadership: &mut Option<Leadership>) -> LostReason {
    match leadership {
        Some(leadership) => leadership.lost.as_mut().await,
        None => std::future::pending().await,
    }
}
