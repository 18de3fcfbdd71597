//! Who keeps the lock of a request: whoever has one of these, until the last is dropped or somebody lets go.

use crate::observer::{LayerEvent, Telling};
use futures_util::FutureExt;
use lock_core::{Ended, Hold, LockGuard, LostReason};
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;

/// Shared by the response, its body, and a detached handler; the handler's [`LockHandle`](super::LockHandle) has a
/// weak one.
pub(crate) struct Held {
    guard: Mutex<Option<LockGuard>>,
    hold: Hold,
    since: Instant,
    telling: Telling,
}

impl Held {
    pub(crate) fn new(guard: LockGuard, telling: Telling) -> Self {
        Self { hold: guard.hold(), guard: Mutex::new(Some(guard)), since: Instant::now(), telling }
    }

    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// The guard, for the first who asks.
    pub(crate) fn let_go(&self) -> Option<LockGuard> {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        if let Some(reason) = self.lost() {
            self.telling.tell(&LayerEvent::Lost { reason });
        }
        self.telling.tell(&LayerEvent::Ended { held: self.since.elapsed() });
        Some(guard)
    }

    /// Compares the clock: a timer may fire late.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        if self.hold.is_held() {
            return None;
        }
        match self.hold.ended().now_or_never() {
            Some(Ended::Lost(reason)) => Some(reason),
            Some(Ended::Released) | None => None,
        }
    }
}

impl Drop for Held {
    /// A dropped guard is released in the background.
    fn drop(&mut self) {
        drop(self.let_go());
    }
}
