//! The products whose locks this process holds or waits for. The data comes from the lock factory's
//! events, without requests to the store.

use distlock::{
    FencingToken,
    observer::{LockEvent, LockObserver},
};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// This process's view of a product's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LocalLock {
    /// Token of this process's hold, if any.
    pub token: Option<FencingToken>,
    /// Number of this process's waiting requests.
    pub waiters: usize,
}

/// The locks in use, by product code.
#[derive(Debug, Default)]
pub(super) struct Holders {
    locks: Mutex<HashMap<String, LocalLock>>,
}

impl Holders {
    /// Returns all locks in use.
    pub(super) fn now(&self) -> HashMap<String, LocalLock> {
        self.locks().clone()
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<String, LocalLock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LockObserver for Holders {
    fn on_event(&self, event: &LockEvent<'_>) {
        // Ignore locks that do not belong to a product, such as those of idempotency keys.
        let Some(sku) = event.name().as_str().strip_prefix("product:") else { return };
        let mut locks = self.locks();
        let lock = locks.entry(sku.to_owned()).or_default();
        match event {
            LockEvent::WaitStarted { .. } => lock.waiters += 1,
            LockEvent::WaitEnded { .. } => lock.waiters = lock.waiters.saturating_sub(1),
            LockEvent::Granted { token, .. } => lock.token = Some(*token),
            // A hold may be reported as ended after the next one was granted.
            LockEvent::Ended { token, .. } if lock.token == Some(*token) => lock.token = None,
            _ => {}
        }
        if *lock == LocalLock::default() {
            locks.remove(sku);
        }
    }
}
