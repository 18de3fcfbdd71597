//! A wake-up listener that counts the releases it is notified of.

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
    /// Registers a listener. Returns `None` if the store does not push, since there are no wake-ups then.
    pub(super) fn register(store: &Store) -> Option<Self> {
        let Some(subscriptions) = store.subscriptions.clone() else {
            eprintln!("{} is polled: its wake-ups are not expected", store.backend.capabilities().name);
            return None;
        };
        let heard = Arc::new(Heard::default());
        let weak = Arc::downgrade(&heard);
        let id = subscriptions.register_listener(weak);
        Some(Self { subscriptions, id, heard })
    }

    /// Registers a listener and subscribes to a name.
    pub(super) async fn watching(store: &Store, name: &LockName) -> Option<Self> {
        let listener = Self::register(store)?;
        listener.watch(name).await;
        Some(listener)
    }

    pub(super) async fn watch(&self, name: &LockName) {
        let subscribed = self.subscriptions.subscribe(self.id, name.clone()).await;
        subscribed.expect("a subscription on a healthy store is acknowledged");
    }

    pub(super) async fn unwatch(&self, name: &LockName) {
        let ended = self.subscriptions.unsubscribe(self.id, name.clone()).await;
        ended.expect("the end of a subscription on a healthy store is answered");
    }

    /// Returns the number of wake-ups for this lock.
    pub(super) fn count(&self, name: &LockName) -> usize {
        self.heard.freed.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|n| *n == name).count()
    }

    /// Waits until there were this many wake-ups for this lock.
    pub(super) async fn must_hear(&self, h: &impl Harness, name: &LockName, times: usize) {
        for _ in 0..STEPS {
            if self.count(name) >= times {
                return;
            }
            h.pass(STEP).await;
        }
        panic!("{name} was freed {times} time(s), but only {} wake-up(s) came", self.count(name));
    }

    /// Waits a little, and fails if there were more wake-ups for this lock than this.
    pub(super) async fn must_not_hear_more(&self, h: &impl Harness, name: &LockName, times: usize) {
        h.pass(QUIET).await;
        let heard = self.count(name);
        assert!(heard <= times, "{heard} wake-up(s) for {name}, but only {times} are expected");
    }
}
