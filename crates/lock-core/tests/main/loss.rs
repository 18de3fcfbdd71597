//! The end of a hold is visible to every later call, and to waiting futures before the keeper runs.

use crate::support::{World, secs};
use lock_core::{
    LockErrorKind, LockFactory, LockOptions, LostReason, MemoryBackend, RunError,
    backend::BackendErrorKind,
    clock::{Clock, Moment, UtcTime},
};
use lock_testkit::{Fault, Op};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

/// A clock that only the test moves, as if the process had been stopped.
#[derive(Debug, Default)]
struct ManualClock(AtomicU64);

impl ManualClock {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_micros().try_into().unwrap(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment::START + Duration::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> UtcTime {
        UtcTime::from_micros(1_000_000_000_000_000 + self.0.load(Ordering::SeqCst))
    }
}

fn locks_on(clock: &Arc<ManualClock>) -> LockFactory {
    let options = LockOptions::new().lease(secs(10));
    let store = MemoryBackend::with_clock(clock.clone());
    LockFactory::builder(store).clock(clock.clone()).options(options).build().unwrap()
}

fn poll_now<F: Future + Unpin>(f: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(f).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn polled_futures_check_the_clock_again() {
    let clock = Arc::new(ManualClock::default());
    let guard = locks_on(&clock).named("x").unwrap().acquire().await.unwrap();
    let (mut lost, mut ended) = (Box::pin(guard.lost()), Box::pin(guard.hold().ended()));
    assert!(poll_now(&mut lost).is_pending());
    assert!(poll_now(&mut ended).is_pending());
    // The process was stopped for two leases; nothing else has run since.
    clock.advance(secs(20));
    assert_eq!(poll_now(&mut lost), Poll::Ready(LostReason::Expired));
    assert!(poll_now(&mut ended).is_ready());
}

#[tokio::test]
async fn work_is_not_polled_after_the_lease_ends() {
    let clock = Arc::new(ManualClock::default());
    let lock = locks_on(&clock).named("x").unwrap();
    let polls = AtomicU64::new(0);
    let work = |_| {
        poll_fn(|_| -> Poll<()> {
            polls.fetch_add(1, Ordering::SeqCst);
            Poll::Pending
        })
    };
    let result = {
        let mut run = pin!(lock.run(work));
        let first = poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await;
        assert!(first.is_pending());
        clock.advance(secs(20));
        poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await
    };
    assert!(matches!(result, Poll::Ready(Err(RunError::Lost(LostReason::Expired)))), "{result:?}");
    assert_eq!(polls.into_inner(), 1, "the work went on after its lease");
}

#[tokio::test(start_paused = true)]
async fn run_errors_describe_the_cause() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    world.faulty.next(Op::Acquire, Fault::FailBefore(BackendErrorKind::Unavailable));
    let error = lock.try_run(async |_| ()).await.unwrap_err();
    assert!(matches!(error, RunError::NotAcquired(_)));
    assert_eq!((error.kind(), error.is_retryable()), (LockErrorKind::Unavailable, true));
    let fixed = lock.with_fixed_lease(secs(5)).unwrap();
    let error = fixed.run(async |_| tokio::time::sleep(secs(10)).await).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (LockErrorKind::Lost, false));
}
