//! A call to the store whose runtime ends while the call is under way.

use crate::{
    explore::explore,
    world::{NAME, Pace, Store, World, acquire},
};
use lock_explored::{
    explored::{Runtime, advance, elapsed, next_timer},
    observer::{LockEvent, LockEventKind, LockObserver},
};
use lock_testkit::planted::PlantedBug;
use shuttle::thread;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// More turns than any schedule needs.
const TURNS: usize = 2_000;

/// Lets other threads run until the condition holds, and advances time while they wait for it.
#[track_caller]
pub(crate) fn until(is_true: impl Fn() -> bool) {
    for _ in 0..TURNS {
        if is_true() {
            return;
        }
        if let Some(next) = next_timer() {
            advance(next);
        }
        thread::yield_now();
    }
    panic!("no progress {:?} after the beginning", elapsed());
}

/// A runtime ends with an acquire under way. Another task acquires the lock soon after.
fn runtime_ends_with_a_call() {
    let World { store, locks, book, runtime } = World::new(Pace::Later);
    let theirs = locks.clone();
    // An error, if the runtime ends before the answer.
    runtime.spawn(async move { drop(theirs.named(NAME).expect("valid name").acquire().await) });
    let next = Runtime::new(2);
    let acquired = Arc::new(AtomicBool::new(false));
    let waits = {
        let (next, locks, acquired) = (next.clone(), locks.clone(), acquired.clone());
        thread::spawn(move || {
            let guard = next.block_on(acquire(&locks));
            acquired.store(true, Ordering::SeqCst);
            next.block_on(async { drop(guard) });
        })
    };
    runtime.shut_down();
    soon(|| acquired.load(Ordering::SeqCst));
    waits.join().expect("acquired");
    runtime.join();
    // The guard may have been dropped while the first runtime ended. The next use of the factory, by another name, lets it
    // be released.
    let other = locks.named("y").expect("valid name");
    until(|| {
        next.block_on(async { drop(other.acquire().await.expect("free").release().await) });
        locks.active_locks() == 0 && store.memory.held().is_empty()
    });
    World { store, locks, book, runtime: next }.ends_well();
}

#[test]
fn call_of_an_ended_runtime_is_abandoned_at_once() {
    explore(runtime_ends_with_a_call, &[PlantedBug::ForgetsDroppedOperation]);
}

/// Advances time in small steps with many turns each, by less than the operation timeout.
#[track_caller]
fn soon(is_true: impl Fn() -> bool) {
    for _ in 0..100 {
        for _ in 0..20 {
            if is_true() {
                return;
            }
            thread::yield_now();
        }
        advance(Duration::from_millis(20));
    }
    panic!("not yet {:?} after the beginning", elapsed());
}

/// The times at which the answered renewals were sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Renewals(Arc<Mutex<Vec<Duration>>>);

impl Renewals {
    /// Returns the times at which they were sent, sorted: an observer may see the events of two threads in either order.
    pub(crate) fn sent(&self) -> Vec<Duration> {
        let mut sent = self.0.lock().expect("not poisoned").clone();
        sent.sort_unstable();
        sent
    }
}

impl LockObserver for Renewals {
    fn on_event(&self, event: &LockEvent<'_>) {
        if let LockEventKind::Renewal { took, .. } = &event.kind {
            let sent = elapsed() - *took;
            self.0.lock().expect("not poisoned").push(sent);
        }
    }
}

#[test]
fn call_abandoned_by_two_runtimes_is_answered_once() {
    fn story() {
        let (store, renewals) = (Store::new(Pace::NeverToRenewals), Renewals::default());
        let locks = store.factory(renewals.clone());
        let (one, two) = (Runtime::new(1), Runtime::new(2));
        let guard = one.block_on(acquire(&locks));
        until(|| store.renewals.load(Ordering::SeqCst) > 0);
        // Sent by the first runtime, and timed out by the second, in which the factory is used from then on.
        let ends = thread::spawn({
            let one = one.clone();
            move || one.shut_down()
        });
        advance(Duration::from_secs(3));
        until(|| {
            two.block_on(async { drop(locks.named("y").unwrap().acquire().await.unwrap()) });
            renewals.sent().len() > 1
        });
        ends.join().unwrap();
        let sent = renewals.sent();
        assert!(sent.is_sorted_by(|a, b| a < b), "answered twice: {sent:?}");
        drop(guard);
        two.shut_down();
        two.join();
        one.join();
    }
    explore(story, &[PlantedBug::DeliversTwice]);
}

#[test]
fn call_that_timed_out_is_dropped() {
    fn story() {
        let (store, renewals) = (Store::new(Pace::NeverToRenewals), Renewals::default());
        let locks = store.factory(renewals.clone());
        let runtime = Runtime::new(1);
        let guard = runtime.block_on(acquire(&locks));
        until(|| renewals.sent().len() > 1);
        let given_up = (0..TURNS).any(|_| {
            thread::yield_now();
            store.given_up.load(Ordering::SeqCst) > 0
        });
        assert!(given_up, "the future stays until the runtime ends");
        drop(guard);
        runtime.shut_down();
        runtime.join();
    }
    explore(story, &[PlantedBug::KeepsTimedOutCalls]);
}
