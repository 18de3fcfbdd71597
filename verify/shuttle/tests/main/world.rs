//! The store, factory and threads of a story.

use async_trait::async_trait;
use lock_explored::{
    FencingToken, LockFactory, LockGuard, LockName, MemoryBackend, Store as StoreOfLocks,
    backend::{
        AcquireRequest, Acquired, AsyncBackend, Backend, BackendError, BackendExt as _, Capabilities,
        ForceReleaseRequest, ForceReleased, Inspected, ProcessId, ReleaseRequest, Released, RenewRequest,
        Renewed, Reply, SubscriberId, Subscriptions, WakeListener,
    },
    clock::UtcTime,
    explored::{ExploredClock, Runtime},
    observer::{LockEvent, LockEventKind, LockObserver},
};
use shuttle::thread::{self, JoinHandle};
use std::{
    future::Future,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
};

/// Determines the poll of a call in which the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    AtOnce,
    /// In the second poll, so that a task continues the call.
    Later,
    /// Like `AtOnce`, but renewals are never answered.
    NeverToRenewals,
}

impl Pace {
    async fn turn(self) {
        let mut late = self == Self::Later;
        std::future::poll_fn(|cx| {
            if std::mem::take(&mut late) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) memory: MemoryBackend,
    pace: Pace,
    /// The number of acquires it received.
    pub(crate) acquires: Arc<AtomicUsize>,
    pub(crate) renewals: Arc<AtomicUsize>,
    /// The number of renewals that were given up.
    pub(crate) given_up: Arc<AtomicUsize>,
}

/// Counts a call that is dropped before it is answered.
struct Unanswered(Arc<AtomicUsize>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Store {
    pub(crate) fn new(pace: Pace) -> Self {
        let memory = MemoryBackend::with_clock(Arc::new(ExploredClock));
        Self { memory, pace, acquires: Arc::default(), renewals: Arc::default(), given_up: Arc::default() }
    }

    pub(crate) fn factory(&self, observer: impl LockObserver) -> LockFactory {
        build(Arc::new(self.clone()).into(), observer)
    }

    /// Returns a factory that submits to this backend, and waits for wake-ups of this store.
    pub(crate) fn through(&self, observer: impl LockObserver, backend: Arc<dyn Backend>) -> LockFactory {
        build(StoreOfLocks::new(backend).pushing(Arc::new(self.clone())), observer)
    }
}

fn build(store: StoreOfLocks, observer: impl LockObserver) -> LockFactory {
    let numbers = AtomicU64::new(0);
    // A sequence instead of a generator, since values must not depend on the explored schedule.
    let random = move || numbers.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
    let process = ProcessId::from_uuid(uuid::Uuid::from_u128(1));
    let builder = LockFactory::builder(store).clock(Arc::new(ExploredClock)).observer(observer);
    builder.repeatable(process, random).build().expect("consistent options")
}

#[async_trait]
impl AsyncBackend for Store {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.memory.server_now(name)
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        self.acquires.fetch_add(1, Ordering::SeqCst);
        self.pace.turn().await;
        self.memory.acquire(request).await
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        self.renewals.fetch_add(1, Ordering::SeqCst);
        if self.pace == Pace::NeverToRenewals {
            let _unanswered = Unanswered(self.given_up.clone());
            std::future::pending::<()>().await;
        }
        self.pace.turn().await;
        self.memory.renew(items).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        self.pace.turn().await;
        self.memory.release(request).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.memory.inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.memory.force_release(request).await
    }
}

#[async_trait]
impl Subscriptions for Store {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.memory.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.pace.turn().await;
        self.memory.subscribe(subscriber, name).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.pace.turn().await;
        self.memory.unsubscribe(subscriber, name).await
    }
}

/// A record of grants and of ends of holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book(Arc<Mutex<Pages>>);

#[derive(Debug, Default)]
struct Pages {
    granted: Vec<(LockName, FencingToken)>,
    ended: Vec<(LockName, FencingToken)>,
}

impl LockObserver for Book {
    fn on_event(&self, event: &LockEvent<'_>) {
        let mut pages = self.0.lock().expect("not poisoned");
        match &event.kind {
            LockEventKind::Granted { token, .. } => pages.granted.push((event.name.clone(), *token)),
            LockEventKind::Ended { token, .. } => pages.ended.push((event.name.clone(), *token)),
            _ => {}
        }
    }
}

impl Book {
    /// Asserts that no token was granted twice and that each grant ended exactly once.
    pub(crate) fn is_balanced(&self) {
        let mut pages = self.0.lock().expect("not poisoned");
        let Pages { granted, ended } = &mut *pages;
        granted.sort();
        ended.sort();
        assert!(granted.is_sorted_by(|a, b| a < b), "granted twice: {granted:?}");
        assert_eq!(granted, ended, "each grant ends once");
    }
}

/// One store, one factory, one runtime.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) locks: LockFactory,
    pub(crate) book: Book,
    pub(crate) runtime: Runtime,
}

impl World {
    pub(crate) fn new(pace: Pace) -> Self {
        let (store, book) = (Store::new(pace), Book::default());
        let locks = store.factory(book.clone());
        Self { store, locks, book, runtime: Runtime::new(1) }
    }

    pub(crate) async fn acquire(&self) -> LockGuard {
        acquire(&self.locks).await
    }

    /// Starts a thread in the same runtime.
    pub(crate) fn thread<F: Future<Output = ()>>(
        &self,
        work: impl FnOnce(LockFactory) -> F + Send + 'static,
    ) -> JoinHandle<()> {
        let (runtime, locks) = (self.runtime.clone(), self.locks.clone());
        thread::spawn(move || runtime.block_on(work(locks)))
    }

    /// Asserts that everything is released without advancing time, and that nothing is left.
    pub(crate) fn ends_well(self) {
        let report = self.runtime.block_on(self.locks.shutdown());
        assert!(report.is_clean(), "{report:?}");
        // Lets the keeper's task end.
        self.runtime.join();
        assert_eq!(self.store.memory.held(), []);
        assert_eq!(self.locks.active_locks(), 0);
        self.book.is_balanced();
    }
}

pub(crate) const NAME: &str = "x";

pub(crate) async fn acquire(locks: &LockFactory) -> LockGuard {
    let guard = locks.named(NAME).expect("valid name").acquire().await.expect("acquired eventually");
    assert!(guard.is_held());
    guard
}
