//! No mutex of this crate is held while a waker is woken, replaced or dropped: wakers are foreign code.

use crate::support::{HANGS, World, millis, secs};
use lock_core::{Lock, LockFactory, LockName, LockOptions, MemoryBackend, future::AcquireFuture};
use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll, Wake, Waker},
};

/// Runs `f` in its own thread with a current-thread runtime; returns `false` if it hangs.
fn ends(f: impl Future<Output = ()> + Send + 'static) -> bool {
    let (done, end) = mpsc::channel();
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(f);
        done.send(()).unwrap();
    });
    end.recv_timeout(HANGS).is_ok()
}

fn poll_once<F: Future>(f: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    f.poll(&mut Context::from_waker(waker))
}

/// When woken, asks the factory for the state of the lock.
struct Looks(LockFactory, LockName);
impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        let _ = poll_once(pin!(self.0.inspect(&self.1)), Waker::noop());
    }
}

#[test]
fn waker_of_ended_can_inspect_the_lock() {
    assert!(
        ends(async {
            let locks = LockFactory::new(MemoryBackend::new());
            let guard = locks.named("x").unwrap().acquire().await.unwrap();
            let mut ended = pin!(guard.hold().ended());
            let waker = Waker::from(Arc::new(Looks(locks.clone(), LockName::new("x").unwrap())));
            assert!(poll_once(ended.as_mut(), &waker).is_pending());
            guard.release().await.unwrap();
        }),
        "deadlock: `HoldState::end` rings the bell under the mutex of the cell"
    );
}

/// When woken, tries to acquire the lock.
struct Tries(Lock);
impl Wake for Tries {
    fn wake(self: Arc<Self>) {
        let _ = poll_once(pin!(self.0.try_acquire()), Waker::noop());
    }
}

#[test]
fn waker_of_lost_can_try_to_acquire() {
    assert!(
        ends(async {
            let store = MemoryBackend::new();
            let locks = LockFactory::new(store.clone());
            let lock = locks.named("x").unwrap();
            let guard = lock.acquire().await.unwrap();
            let mut lost = pin!(guard.lost());
            let waker = Waker::from(Arc::new(Tries(lock.clone())));
            assert!(poll_once(lost.as_mut(), &waker).is_pending());
            store.clear();
            guard.hold().ended().await; // the keeper has woken both
        }),
        "deadlock"
    );
}

/// A waker that owns a task, as the wakers of many executors do; the task waits for the same lock.
struct OwnsTask(#[allow(dead_code)] Mutex<Option<Pin<Box<AcquireFuture>>>>);
impl Wake for OwnsTask {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn replaced_waker_of_an_acquire_can_own_another_acquire() {
    assert!(
        ends(async {
            let locks = LockFactory::new(MemoryBackend::new());
            let lock = locks.named("x").unwrap();
            let _guard = lock.acquire().await.unwrap();
            let mut inner = Box::pin(lock.acquire());
            assert!(poll_once(inner.as_mut(), Waker::noop()).is_pending());
            let mut outer = Box::pin(lock.acquire());
            let waker = Waker::from(Arc::new(OwnsTask(Mutex::new(Some(inner)))));
            assert!(poll_once(outer.as_mut(), &waker).is_pending());
            drop(waker); // the slot has the last one
            assert!(poll_once(outer.as_mut(), Waker::noop()).is_pending());
        }),
        "deadlock: the old waker is dropped under the mutex of the cell"
    );
}

#[test]
fn dropped_release_can_have_a_waker_that_owns_an_acquire() {
    assert!(
        ends(async {
            let store = lock_testkit::FaultyBackend::new(MemoryBackend::new());
            let locks = LockFactory::new(store.clone());
            let lock = locks.named("x").unwrap();
            let guard = lock.acquire().await.unwrap();
            let mut inner = Box::pin(lock.acquire());
            assert!(poll_once(inner.as_mut(), Waker::noop()).is_pending());
            store.always(lock_testkit::Op::Release, lock_testkit::Fault::Hang);
            let mut release = Box::pin(guard.release());
            let waker = Waker::from(Arc::new(OwnsTask(Mutex::new(Some(inner)))));
            assert!(poll_once(release.as_mut(), &waker).is_pending());
            drop(waker);
            drop(release);
        }),
        "deadlock: `Releasing::drop` drops the waker under the mutex of the cell"
    );
}

/// A waker whose task is gone, as in small executors that send their tasks through a channel.
struct Panics;
impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("the executor is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_waker_does_not_stop_the_watchdog() {
    let world = World::with(LockOptions::new().lease(millis(300)));
    let kept = world.locks.named("y").unwrap().acquire().await.unwrap();
    let other = world.another_process();
    let _held = other.named("x").unwrap().acquire().await.unwrap();
    // The wait on one lock ends when the renewal of the other is due.
    let mut waiter = Box::pin(world.locks.named("x").unwrap().acquire_timeout(millis(100)));
    let waker = Waker::from(Arc::new(Panics));
    assert!(poll_once(waiter.as_mut(), &waker).is_pending());
    tokio::time::sleep(secs(2)).await;
    assert!(!kept.remaining().is_zero(), "nobody renewed the other lock");
}

#[tokio::test(start_paused = true)]
async fn panicking_waker_does_not_keep_others_from_learning_of_a_loss() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    let waker = Waker::from(Arc::new(Panics));
    let mut panics: Vec<_> = (0..40).map(|_| Box::pin(guard.lost())).collect();
    let told: Vec<_> = (0..40).map(|_| tokio::spawn(guard.lost())).collect();
    let mut more: Vec<_> = (0..40).map(|_| Box::pin(guard.lost())).collect();
    for lost in panics.iter_mut().chain(&mut more) {
        assert!(poll_once(lost.as_mut(), &waker).is_pending());
    }
    world.settle().await;
    world.store.clear();
    tokio::time::sleep(millis(5)).await;
    assert!(told.iter().all(|task| task.is_finished()), "all were told before the deadline");
}
