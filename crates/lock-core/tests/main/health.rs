//! The health of a store, as a readiness probe sees it.

use crate::support::{millis, secs};
use async_trait::async_trait;
use futures_util::FutureExt;
use lock_core::{
    LockErrorKind, LockFactory, LockName, MemoryBackend, Store,
    backend::{
        AcquireRequest, Acquired, AsyncBackend, Backend as _, BackendError, BackendExt as _, Capabilities,
        ForceReleaseRequest, ForceReleased, Inspected, ReleaseRequest, Released, RenewRequest, Renewed,
        Reply,
    },
    clock::{TestClock, UtcTime},
    inspect::Health,
};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// A store that counts its inspections and delays them by a time that may change.
#[derive(Debug)]
struct Probed {
    memory: MemoryBackend,
    requests: AtomicUsize,
    delay: watch::Sender<Duration>,
}

impl Probed {
    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl AsyncBackend for Probed {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.memory.server_now(name)
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        self.memory.acquire(request).await
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        self.memory.renew(items).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        self.memory.release(request).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let delay = *self.delay.borrow();
        sleep(delay).await;
        self.memory.inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.memory.force_release(request).await
    }
}

/// Longer than any timeout.
const HANG: Duration = secs(3_600);

fn probed() -> (Arc<Probed>, LockFactory) {
    let clock = Arc::new(TestClock::new());
    let memory = MemoryBackend::with_clock(clock.clone());
    let store = Arc::new(Probed {
        memory: memory.clone(),
        requests: AtomicUsize::new(0),
        delay: watch::Sender::new(Duration::ZERO),
    });
    let locks = LockFactory::builder(Store::polling(store.clone()).pushing(Arc::new(memory)));
    (store, locks.clock(clock).build().unwrap())
}

fn failure(health: Health) -> (Duration, LockErrorKind) {
    match health {
        Health::Failing { failing_for, error } => (failing_for, error.kind()),
        healthy => panic!("{healthy}"),
    }
}

#[tokio::test(start_paused = true)]
async fn checks_within_a_second_send_one_request() {
    let (store, locks) = probed();
    for _ in 0..100 {
        assert!(locks.health().await.is_healthy());
        sleep(millis(5)).await;
    }
    assert_eq!(store.requests(), 1);
    sleep(secs(1)).await;
    assert!(locks.health().await.is_healthy());
    assert_eq!(store.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn concurrent_checks_share_one_request() {
    let (store, locks) = probed();
    store.delay.send_replace(millis(200));
    let (one, two, three) = tokio::join!(locks.health(), locks.health(), locks.health());
    assert!([one, two, three].iter().all(Health::is_healthy));
    assert_eq!(store.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn outage_is_reported_with_its_duration() {
    let (store, locks) = probed();
    assert!(locks.health().await.is_healthy());
    sleep(secs(2)).await;
    store.delay.send_replace(HANG);
    let begun = Instant::now();
    assert_eq!(failure(locks.health().await), (Duration::ZERO, LockErrorKind::Unavailable));
    assert_eq!(begun.elapsed(), secs(3), "the operation timeout");
    sleep(secs(7)).await;
    // The time since the first failure, and the timeout of this check.
    assert_eq!(failure(locks.health().await), (secs(10), LockErrorKind::Unavailable));
    store.delay.send_replace(Duration::ZERO);
    sleep(secs(1)).await;
    assert!(locks.health().await.is_healthy());
}

#[tokio::test(start_paused = true)]
async fn dropped_checks_do_not_delay_others() {
    let (store, locks) = probed();
    store.delay.send_replace(HANG);
    assert!(tokio::time::timeout(secs(1), locks.health()).await.is_err());
    store.delay.send_replace(Duration::ZERO);
    assert!(locks.health().await.is_healthy());
}

#[tokio::test(start_paused = true)]
async fn unpolled_check_delays_others_for_a_bounded_time() {
    let (store, locks) = probed();
    store.delay.send_replace(HANG);
    let mut unpolled = pin!(locks.health());
    assert!(unpolled.as_mut().now_or_never().is_none());
    let begun = Instant::now();
    assert_eq!(failure(locks.health().await).1, LockErrorKind::Unavailable);
    assert_eq!(begun.elapsed(), secs(3));
}

#[tokio::test(start_paused = true)]
async fn checks_that_wait_for_another_report_the_duration_of_the_outage() {
    let (store, locks) = probed();
    store.delay.send_replace(HANG);
    assert_eq!(failure(locks.health().await).0, Duration::ZERO);
    sleep(secs(7)).await;
    let mut unpolled = pin!(locks.health());
    assert!(unpolled.as_mut().now_or_never().is_none());
    assert_eq!(failure(locks.health().await), (secs(10), LockErrorKind::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn factory_is_not_ready_after_shutdown() {
    let (store, locks) = probed();
    assert!(locks.health().await.is_healthy());
    locks.shutdown().await;
    assert_eq!(failure(locks.health().await).1, LockErrorKind::ShutDown);
    assert_eq!(store.requests(), 1);
}
