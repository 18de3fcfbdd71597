//! A backend with the buggy store rules, and further bugs in subscriptions and request handling.

use async_trait::async_trait;
use lock_core::{
    LockName, Store,
    backend::{
        AcquireMode, AcquireRequest, Acquired, AsyncBackend, BackendError, Capabilities, ForceReleaseRequest,
        ForceReleased, Inspected, NotifyWaiters, ReleaseRequest, Released, RenewRequest, Renewed, Reply,
        SubscriberId, SubscriptionRegistry, Subscriptions, WakeListener,
    },
    clock::{Clock, TestClock, UtcTime},
};
use lock_testkit::planted::{BuggyStore, PlantedBug};
use std::{
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

/// An in-memory store, optionally with a planted bug. Clones share the data.
#[derive(Debug, Clone)]
pub(crate) struct BuggyBackend {
    bug: Option<PlantedBug>,
    store: Arc<Mutex<BuggyStore>>,
    watchers: Arc<SubscriptionRegistry>,
    clock: Arc<TestClock>,
}

impl BuggyBackend {
    pub(crate) fn new(bug: Option<PlantedBug>, clock: Arc<TestClock>) -> Self {
        let store = Arc::new(Mutex::new(BuggyStore::new(bug, None)));
        Self { bug, store, watchers: Arc::default(), clock }
    }

    fn has(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    fn store(&self) -> (MutexGuard<'_, BuggyStore>, UtcTime) {
        let store = self.store.lock().unwrap();
        let now = self.clock.wall();
        (store, now)
    }

    /// Frees the lock regardless of its holder.
    fn free(&self, name: &LockName) {
        let (mut store, now) = self.store();
        if let Some((holder, ..)) = store.held(now, name) {
            store.force_release(now, &ForceReleaseRequest { name: name.clone(), seen: holder.to_string() });
        }
    }

    fn is_free(&self, name: &LockName) -> bool {
        let (store, now) = self.store();
        store.held(now, name).is_none()
    }
}

#[async_trait]
impl AsyncBackend for BuggyBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("buggy").with_permits()
    }

    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        Some(self.clock.wall())
    }

    async fn acquire(&self, r: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let is_new = matches!(r.mode, AcquireMode::New { .. });
        if self.has(PlantedBug::CheckThenSet) && is_new && self.is_free(&r.name) {
            tokio::task::yield_now().await;
            self.free(&r.name);
        }
        let (mut store, now) = self.store();
        Ok(store.acquire(now, &r))
    }

    async fn renew(&self, mut items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        if let (true, Some(first)) = (self.has(PlantedBug::OneDurationForAll), items.first()) {
            let one = first.duration;
            items.iter_mut().for_each(|item| item.duration = one);
        }
        let (mut store, now) = self.store();
        let mut answers: Vec<_> = items.iter().map(|item| Ok(store.renew(now, item))).collect();
        if self.has(PlantedBug::ShufflesRenewals) {
            answers.reverse();
        }
        answers
    }

    async fn release(&self, r: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        let mut reply = {
            let (mut store, now) = self.store();
            store.release(now, &r)
        };
        let notifies = match (self.bug, &reply.outcome) {
            (Some(PlantedBug::NotifiesPartialRelease), Released::Kept) => true,
            (_, Released::Kept | Released::Gone { .. }) => false,
            (Some(PlantedBug::AlwaysNotifies), _) => true,
            (Some(PlantedBug::NeverNotifies), _) => false,
            _ => r.notify != NotifyWaiters::No,
        };
        if notifies {
            let notified = self.watchers.released(&r.name);
            if let Released::Released { listeners } = &mut reply.outcome {
                *listeners = Some(notified);
            }
        }
        Ok(reply)
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let (mut store, now) = self.store();
        Ok(store.inspect(now, &name))
    }

    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        let reply = {
            let (mut store, now) = self.store();
            store.force_release(now, &r)
        };
        if reply.outcome == ForceReleased::Released {
            self.watchers.released(&r.name);
        }
        Ok(reply)
    }
}

#[async_trait]
impl Subscriptions for BuggyBackend {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.watchers.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let watchers = self.watchers.clone();
        if self.has(PlantedBug::SubscribesLate) {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                watchers.subscribe(subscriber, name);
            });
        } else {
            watchers.subscribe(subscriber, name);
        }
        Ok(())
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        if !self.has(PlantedBug::NeverUnsubscribes) {
            self.watchers.unsubscribe(subscriber, &name);
        }
        Ok(())
    }
}

impl From<BuggyBackend> for Store {
    fn from(buggy: BuggyBackend) -> Self {
        Self::from(Arc::new(buggy))
    }
}
