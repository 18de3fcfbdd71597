//! Two factories over one store, like two processes of a fleet.

use super::Harness;
use lock_core::{
    Lock, LockError, LockErrorKind, LockFactory, LockGuard, LockName, LockOptions, Store,
    backend::StoredHold,
    clock::Clock,
    inspect::Inspection,
    observer::{LockEvent, LockObserver, WakeSource},
};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// A lease whose end properties wait for.
pub(super) const LEASE: Duration = Duration::from_secs(1);
/// A lease that a watchdog can renew even on a slow machine, and whose renewals properties wait for.
pub(super) const KEPT: Duration = Duration::from_secs(4);
/// The time limit of anything that may hang. Shorter than the default lease, so that its end is not mistaken for a
/// release.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// Two processes and their shared state.
pub(super) struct Team {
    pub(super) a: LockFactory,
    pub(super) b: LockFactory,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) name: LockName,
    pushes: bool,
    woken: Arc<Woken>,
}

/// Counts the wake-ups for waiters, and the polls that waiters made on their own.
#[derive(Debug, Default)]
struct Woken {
    messages: AtomicUsize,
    polls: AtomicUsize,
}

impl LockObserver for Woken {
    fn on_event(&self, event: &LockEvent<'_>) {
        match event {
            LockEvent::WakeUp { source: WakeSource::Push, .. } => self.messages.fetch_add(1, SeqCst),
            LockEvent::WakeUp { source: WakeSource::Poll, .. } => self.polls.fetch_add(1, SeqCst),
            _ => return,
        };
    }
}

impl Team {
    pub(super) async fn new(h: &impl Harness, hint: &str) -> Self {
        Self::with(h, hint, LockOptions::new()).await
    }

    /// Creates two processes with watchdogs for leases of [`KEPT`].
    pub(super) async fn with_kept_leases(h: &impl Harness, hint: &str) -> Self {
        Self::with(h, hint, LockOptions::new().lease(KEPT)).await
    }

    async fn with(h: &impl Harness, hint: &str, options: LockOptions) -> Self {
        let (store, clock, name) = (h.store().await, h.clock(), h.name(hint));
        let pushes = store.subscriptions.is_some();
        let other = h.another(&store).await;
        let woken = Arc::new(Woken::default());
        let factory = |store: Store| {
            let builder = LockFactory::builder(store).clock(clock.clone()).options(options);
            let builder = builder.observer(woken.clone());
            builder.build().expect("the suite's options fit together")
        };
        let (a, b) = (factory(store), factory(other));
        Self { a, b, clock, name, pushes, woken }
    }

    /// Returns the lock in process `a`.
    pub(super) fn lock_a(&self) -> Lock {
        named(&self.a, &self.name)
    }

    /// Returns the lock in process `b`.
    pub(super) fn lock_b(&self) -> Lock {
        named(&self.b, &self.name)
    }

    /// Returns the holder in the store.
    pub(super) async fn stored(&self) -> Option<StoredHold> {
        self.inspect().await.stored
    }

    pub(super) async fn inspect(&self) -> Inspection {
        self.a.inspect(&self.name).await.expect("an inspection on a healthy store is answered")
    }

    /// Waits until the store has no holder, since background work takes a moment.
    pub(super) async fn must_become_free(&self, h: &impl Harness) {
        let free = async {
            while self.stored().await.is_some() {
                h.pass(Duration::from_millis(5)).await;
            }
        };
        within(h, SOON, "the lock becomes free", free).await;
    }

    /// Waits for a waiter of another process that a release must wake. If the backend can push, no waiter may poll
    /// without any message.
    pub(super) async fn must_be_woken(&self, h: &impl Harness, waiter: Waiter) -> LockGuard {
        let guard = within(h, SOON, "a release wakes the waiter", waiter).await;
        let (messages, polls) = (self.woken.messages.load(SeqCst), self.woken.polls.load(SeqCst));
        assert!(
            !self.pushes || messages > 0 || polls == 0,
            "no wake-up arrived: the waiter polled {polls} time(s)"
        );
        guard.expect("the waiter lives").expect("the waiter gets the lock")
    }
}

/// Returns the lock of that name.
pub(super) fn named(factory: &LockFactory, name: &LockName) -> Lock {
    factory.named(name).expect("a lock name is a lock name")
}

/// Acquires the lock, which must succeed.
pub(super) async fn get(lock: &Lock) -> LockGuard {
    lock.acquire().await.expect("a lock on a healthy store is acquired")
}

/// Tries to acquire the lock, which must not fail. On a busy machine an answer may come after the operation timeout, so
/// a try without an answer is repeated a few times.
pub(super) async fn attempt(lock: &Lock) -> Option<LockGuard> {
    let mut tried = lock.try_acquire().await;
    for _ in 0..4 {
        match tried {
            Err(error) if error.kind() == LockErrorKind::Unavailable => tried = lock.try_acquire().await,
            _ => break,
        }
    }
    tried.expect("a try on a healthy store is answered")
}

/// Fails unless another holder has the lock.
pub(super) async fn must_not_get(lock: &Lock) {
    let guard = attempt(lock).await;
    assert!(guard.is_none(), "two holders of {}: the other, and {guard:?}", lock.name());
}

/// The result of an acquire in a separate task.
pub(super) type Waiter = tokio::task::JoinHandle<Result<LockGuard, LockError>>;

/// Starts an acquire and waits until it is queued in its factory.
pub(super) async fn queue_up(h: &impl Harness, factory: &LockFactory, lock: &Lock) -> Waiter {
    let waiting = || async {
        let seen = factory.inspect(lock.name()).await.expect("an inspection on a healthy store is answered");
        seen.local.map_or(0, |local| local.waiters)
    };
    let before = waiting().await;
    let waiter = tokio::spawn(lock.acquire());
    let queued = async {
        while waiting().await <= before && !waiter.is_finished() {
            h.pass(Duration::from_millis(2)).await;
        }
    };
    within(h, SOON, "the acquire queues up", queued).await;
    waiter
}

/// Fails if `work` takes longer than `time`.
pub(super) async fn within<T>(
    h: &impl Harness,
    time: Duration,
    what: &str,
    work: impl Future<Output = T>,
) -> T {
    tokio::select! {
        biased;
        done = work => done,
        () = h.pass(time) => panic!("{what} within {time:?}: it did not"),
    }
}
