//! Two factories over one store, like two processes in a fleet.

use super::Harness;
use lock_core::{
    Lock, LockError, LockErrorKind, LockFactory, LockGuard, LockName, LockOptions, Store,
    backend::StoredHold,
    clock::Clock,
    inspect::Inspection,
    observer::{LockEvent, LockEventKind, LockObserver, WakeSource},
};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// A lease short enough for tests to wait for its expiry.
pub(super) const LEASE: Duration = Duration::from_secs(1);
/// A lease long enough for a watchdog to renew on a slow machine, and short enough for tests to
/// wait for renewals.
pub(super) const KEPT: Duration = Duration::from_secs(4);
/// The time limit for operations that can hang. It is shorter than the default lease, so an expiry
/// is not mistaken for a release.
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

/// Counts wake-ups, and polls that waiters made without a wake-up.
#[derive(Debug, Default)]
struct Woken {
    messages: AtomicUsize,
    polls: AtomicUsize,
}

impl LockObserver for Woken {
    fn on_event(&self, event: &LockEvent<'_>) {
        match &event.kind {
            LockEventKind::WakeUp { source: WakeSource::Push, .. } => self.messages.fetch_add(1, SeqCst),
            LockEventKind::WakeUp { source: WakeSource::Poll, .. } => self.polls.fetch_add(1, SeqCst),
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
            builder.build().expect("the options are consistent")
        };
        let (a, b) = (factory(store), factory(other));
        Self { a, b, clock, name, pushes, woken }
    }

    /// Returns `true` if the store pushes wake-ups.
    pub(super) fn pushes(&self) -> bool {
        self.pushes
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
        self.a.inspect(&self.name).await.expect("inspection failed on a healthy store")
    }

    /// Waits until the store reports no holder. A background release takes some time.
    pub(super) async fn must_become_free(&self, h: &impl Harness) {
        let free = async {
            while self.stored().await.is_some() {
                h.pass(Duration::from_millis(5)).await;
            }
        };
        within(h, SOON, "the lock becomes free", free).await;
    }

    /// Waits for another process's waiter, which a release must wake. If the backend pushes wake-ups,
    /// panics if the waiter polled and no wake-up arrived.
    pub(super) async fn must_be_woken(&self, h: &impl Harness, waiter: Waiter) -> LockGuard {
        let guard = within(h, SOON, "a release wakes the waiter", waiter).await;
        let (messages, polls) = (self.woken.messages.load(SeqCst), self.woken.polls.load(SeqCst));
        assert!(
            !self.pushes || messages > 0 || polls == 0,
            "no wake-up arrived: the waiter polled {polls} time(s)"
        );
        guard.expect("the waiter panicked").expect("the waiter failed to acquire the lock")
    }
}

/// Returns the lock with this name.
pub(super) fn named(factory: &LockFactory, name: &LockName) -> Lock {
    factory.named(name).expect("valid lock name")
}

/// Acquires the lock. Panics on an error.
pub(super) async fn get(lock: &Lock) -> LockGuard {
    lock.acquire().await.expect("acquire failed on a healthy store")
}

/// Tries to acquire the lock. Panics on an error. On a busy machine, a reply can arrive after the
/// operation timeout, so an attempt without a reply is repeated a few times.
pub(super) async fn attempt(lock: &Lock) -> Option<LockGuard> {
    let mut tried = lock.try_acquire().await;
    for _ in 0..4 {
        match tried {
            Err(error) if error.kind() == LockErrorKind::Unavailable => tried = lock.try_acquire().await,
            _ => break,
        }
    }
    tried.expect("try_acquire failed on a healthy store")
}

/// Panics unless another holder holds the lock.
pub(super) async fn must_not_get(lock: &Lock) {
    let guard = attempt(lock).await;
    assert!(guard.is_none(), "{} is held, but was granted again: {guard:?}", lock.name());
}

/// The result of an acquire in a separate task.
pub(super) type Waiter = tokio::task::JoinHandle<Result<LockGuard, LockError>>;

/// Starts an acquire and waits until it is queued in its factory.
pub(super) async fn queue_up(h: &impl Harness, factory: &LockFactory, lock: &Lock) -> Waiter {
    let waiting = || async {
        factory.inspect(lock.name()).await.expect("inspection failed on a healthy store").waiters
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

/// Panics if `work` takes longer than `time`.
pub(super) async fn within<T>(
    h: &impl Harness,
    time: Duration,
    what: &str,
    work: impl Future<Output = T>,
) -> T {
    tokio::select! {
        biased;
        done = work => done,
        () = h.pass(time) => panic!("timed out after {time:?} waiting until {what}"),
    }
}
