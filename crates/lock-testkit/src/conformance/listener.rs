//! A factory's ear: hears which locks were freed, and counts.

use super::Harness;
use lock_core::{
    Backend, BackendErrorKind, LockName,
    backend::{Signals, SubscriberId, WakeReason, WakeUps},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Long enough for a wake-up that must not come to come.
const QUIET: Duration = Duration::from_millis(150);
const STEP: Duration = Duration::from_millis(5);
const STEPS: u32 = 12_000;

/// Attached to a backend; deaf again when it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    backend: Arc<dyn Backend>,
    id: SubscriberId,
    heard: Arc<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    freed: Mutex<Vec<LockName>>,
}

impl Signals for Heard {
    fn freed(&self, name: &LockName) {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
    }
    fn all(&self, _: WakeReason) {}
    fn node_restarted(&self) {}
}

impl Listener {
    /// Attaches; `None` where the backend says that it cannot push, because then there is nothing to hear.
    pub(super) async fn attach(backend: &Arc<dyn Backend>, probe: &LockName) -> Option<Self> {
        let heard = Arc::new(Heard::default());
        let weak = Arc::downgrade(&heard);
        let id = backend.attach(weak);
        if backend.capabilities().wake_ups == WakeUps::Push {
            return Some(Self { backend: backend.clone(), id, heard });
        }
        eprintln!("{} is polled: its wake-ups are not expected", backend.capabilities().name);
        if let Err(error) = backend.watch(id, probe.clone()).await {
            assert_eq!(
                error.kind(),
                BackendErrorKind::Unsupported,
                "a polled backend need not watch: {error}"
            );
        }
        None
    }

    /// Attaches and watches a name.
    pub(super) async fn watching(backend: &Arc<dyn Backend>, name: &LockName) -> Option<Self> {
        let listener = Self::attach(backend, name).await?;
        listener.watch(name).await;
        Some(listener)
    }

    pub(super) async fn watch(&self, name: &LockName) {
        self.backend.watch(self.id, name.clone()).await.expect("a watch on a healthy store is acknowledged");
    }

    pub(super) async fn unwatch(&self, name: &LockName) {
        self.backend.unwatch(self.id, name.clone()).await.expect("an unwatch on a healthy store is answered");
    }

    /// How often it heard that this lock was freed.
    pub(super) fn count(&self, name: &LockName) -> usize {
        self.heard.freed.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|n| *n == name).count()
    }

    /// Waits until it heard of this lock so many times.
    pub(super) async fn must_hear(&self, h: &impl Harness, name: &LockName, times: usize) {
        for _ in 0..STEPS {
            if self.count(name) >= times {
                return;
            }
            h.pass(STEP).await;
        }
        panic!("{name} was freed {times} time(s), but only {} wake-up(s) came", self.count(name));
    }

    /// Waits a little and fails if it heard more of this lock than so many times.
    pub(super) async fn must_not_hear_more(&self, h: &impl Harness, name: &LockName, times: usize) {
        h.pass(QUIET).await;
        let heard = self.count(name);
        assert!(heard <= times, "{heard} wake-up(s) for {name}, but only {times} are expected");
    }
}
