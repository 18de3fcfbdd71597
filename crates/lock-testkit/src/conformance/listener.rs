//! A wake-up listener that counts its notifications.

use super::Harness;
use lock_core::{
    LockName, Store,
    backend::{MissedWakes, SubscriberId, Subscriptions, WakeListener},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Long enough for an unexpected wake-up to arrive.
const QUIET: Duration = Duration::from_millis(150);
const STEP: Duration = Duration::from_millis(5);
const STEPS: u32 = 12_000;

/// A listener that is registered with a store until it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    subscriptions: Arc<dyn Subscriptions>,
    id: SubscriberId,
    heard: Arc<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    freed: Mutex<Vec<LockName>>,
}

impl WakeListener for Heard {
    fn released(&self, name: &LockName) {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
    }
    fn wake_all(&self, _: MissedWakes) {}
    fn server_restarted(&self) {}
}

impl Listener {
    /// Registers a listener. Returns `None` if the store does not push wake-ups.
    pub(super) fn register(store: &Store) -> Option<Self> {
        let Some(subscriptions) = store.subscriptions.clone() else {
            eprintln!("{} does not push: skipping wake-up checks", store.backend.capabilities().name);
            return None;
        };
        let heard = Arc::new(Heard::default());
        let weak = Arc::downgrade(&heard);
        let id = subscriptions.register_listener(weak);
        Some(Self { subscriptions, id, heard })
    }

    /// Registers a listener and subscribes to a lock.
    pub(super) async fn watching(store: &Store, name: &LockName) -> Option<Self> {
        let listener = Self::register(store)?;
        listener.watch(name).await;
        Some(listener)
    }

    pub(super) async fn watch(&self, name: &LockName) {
        let subscribed = self.subscriptions.subscribe(self.id, name.clone()).await;
        subscribed.expect("subscribing failed on a healthy store");
    }

    pub(super) async fn unwatch(&self, name: &LockName) {
        let ended = self.subscriptions.unsubscribe(self.id, name.clone()).await;
        ended.expect("unsubscribing failed on a healthy store");
    }

    /// Returns the number of wake-ups for this lock.
    pub(super) fn count(&self, name: &LockName) -> usize {
        self.heard.freed.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|n| *n == name).count()
    }

    /// Waits until this many wake-ups for this lock have arrived.
    pub(super) async fn must_hear(&self, h: &impl Harness, name: &LockName, times: usize) {
        for _ in 0..STEPS {
            if self.count(name) >= times {
                return;
            }
            h.pass(STEP).await;
        }
        panic!("{name} was freed {times} time(s), but only {} wake-up(s) arrived", self.count(name));
    }

    /// Waits briefly, and panics if more than this many wake-ups for this lock have arrived.
    pub(super) async fn must_not_hear_more(&self, h: &impl Harness, name: &LockName, times: usize) {
        h.pass(QUIET).await;
        let heard = self.count(name);
        assert!(heard <= times, "{heard} wake-up(s) for {name}, expected at most {times}");
    }
}
