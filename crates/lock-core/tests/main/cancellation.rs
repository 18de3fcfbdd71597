//! Every future may be dropped at any await.

use crate::support::{World, millis, name, secs};
use lock_core::{
    LockFactory, LockOptions,
    observer::{AcquireOutcome, LockEvent, LockEventKind, LockObserver},
};
use lock_testkit::{Fault, Op, Phase, Seed};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    task::{Context, Waker},
};

/// Counts increments that must be matched by decrements.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counters(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    waiting: AtomicI64,
    held: AtomicI64,
    cancelled: AtomicU64,
}

impl Counters {
    #[track_caller]
    pub(crate) fn assert_zero(&self) {
        assert_eq!(self.0.waiting.load(Ordering::SeqCst), 0, "waiting");
        assert_eq!(self.0.held.load(Ordering::SeqCst), 0, "held");
    }
}

impl LockObserver for Counters {
    fn on_event(&self, event: &LockEvent<'_>) {
        match &event.kind {
            LockEventKind::WaitStarted => drop(self.0.waiting.fetch_add(1, Ordering::SeqCst)),
            LockEventKind::WaitEnded { outcome, .. } => {
                self.0.waiting.fetch_sub(1, Ordering::SeqCst);
                if *outcome == AcquireOutcome::Cancelled {
                    self.0.cancelled.fetch_add(1, Ordering::SeqCst);
                }
            }
            LockEventKind::Granted { .. } => drop(self.0.held.fetch_add(1, Ordering::SeqCst)),
            LockEventKind::Ended { .. } => drop(self.0.held.fetch_sub(1, Ordering::SeqCst)),
            _ => {}
        }
    }
}

pub(crate) fn counted(world: &World) -> (LockFactory, Counters) {
    let counters = Counters::default();
    let locks = LockFactory::builder(world.faulty.clone())
        .clock(world.clock.clone())
        .observer(counters.clone())
        .build()
        .unwrap();
    (locks, counters)
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_acquires_dropped_at_random_leave_nothing() {
    let mut seed = Seed::new(0x00C0_FFEE).stream();
    let mut world = World::new();
    let (locks, counters) = counted(&world);
    world.locks = locks.clone();
    world.faulty.always(Op::Acquire, Fault::SlowAnswer(millis(3)));
    world.faulty.always(Op::Release, Fault::Delay(millis(2)));
    world.faulty.always(Op::Subscribe, Fault::SlowAnswer(millis(4)));
    let other = world.another_process();

    let mut granted = 0u32;
    for round in 0..10_000u32 {
        let lock = locks.named(format!("n{}", round % 7)).unwrap();
        let rival = match seed.below(4) {
            0 => other.named(format!("n{}", round % 7)).unwrap().try_acquire().await.unwrap(),
            _ => None,
        };
        let behind = (seed.below(3) == 0).then(|| tokio::spawn(lock.acquire()));
        let patience = std::time::Duration::from_micros(seed.below(9_000));
        match tokio::time::timeout(patience, lock.acquire()).await {
            Ok(guard) => {
                granted += 1;
                drop(guard.unwrap());
            }
            Err(_elapsed) => {}
        }
        drop(rival);
        if let Some(behind) = behind {
            let guard = tokio::time::timeout(secs(10), behind).await.expect("the waiter behind continues");
            drop(guard.unwrap().unwrap());
        }
    }
    let cancelled = counters.0.cancelled.load(Ordering::SeqCst);
    assert!(cancelled > 2_000 && granted > 1_000, "{cancelled} cancelled, {granted} granted");

    tokio::time::sleep(secs(1)).await;
    assert_eq!(world.store.held(), Vec::new(), "no orphan after 1 s");
    tokio::time::sleep(secs(2)).await;
    world.assert_nothing_left();
    counters.assert_zero();
}

#[tokio::test(start_paused = true)]
async fn acquire_dropped_at_any_gate_leaves_nothing_and_the_next_waiter_continues() {
    // Gates of the first try, of the subscription, of the following try, and of the release after it.
    let gates = [
        (Op::Acquire, Phase::Before, 0),
        (Op::Acquire, Phase::After, 0),
        (Op::Subscribe, Phase::Before, 0),
        (Op::Subscribe, Phase::After, 0),
        (Op::Acquire, Phase::Before, 1),
        (Op::Acquire, Phase::After, 1),
    ];
    for held_by_other in [false, true] {
        for (op, phase, nth) in gates {
            if !held_by_other && (op == Op::Subscribe || nth > 0) {
                continue; // a free lock is granted at the first try
            }
            let world = World::new();
            let other = world.another_process();
            let rival = match held_by_other {
                true => Some(other.named("x").unwrap().acquire().await.unwrap()),
                false => None,
            };
            let lock = world.locks.named("x").unwrap();
            let skipped = (nth == 1).then(|| world.faulty.gate(Op::Subscribe, Phase::After));
            let first_gate = skipped.is_none().then(|| world.faulty.gate(op, phase));
            let waiter = tokio::spawn(lock.acquire());
            let gate = match (skipped, first_gate) {
                (Some(skipped), _) => {
                    skipped.reached().await;
                    let gate = world.faulty.gate(op, phase);
                    skipped.open();
                    gate
                }
                (None, Some(gate)) => gate,
                (None, None) => unreachable!(),
            };
            gate.reached().await;
            let behind = tokio::spawn(lock.acquire());
            world.settle().await;
            waiter.abort();
            assert!(waiter.await.unwrap_err().is_cancelled());
            gate.open();
            drop(rival);
            let guard = tokio::time::timeout(secs(6), behind).await;
            let guard = guard.unwrap_or_else(|_| panic!("stuck behind {op:?} {phase:?} {nth}"));
            guard.unwrap().unwrap().release().await.unwrap();
            tokio::time::sleep(secs(3)).await;
            world.assert_nothing_left();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_waiter_dropped_at_any_gate_leaves_no_lease() {
    for (op, phase) in [(Op::Acquire, Phase::Before), (Op::Acquire, Phase::After)] {
        let world = World::new();
        let gate = world.faulty.gate(op, phase);
        let waiter = tokio::spawn(world.locks.named("x").unwrap().acquire());
        gate.reached().await;
        waiter.abort();
        let _ = waiter.await;
        gate.open();
        tokio::time::sleep(secs(1)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn release_dropped_at_any_gate_continues_in_the_background() {
    for phase in [Phase::Before, Phase::After] {
        let world = World::new();
        let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
        let gate = world.faulty.gate(Op::Release, phase);
        let release = tokio::spawn(guard.release());
        gate.reached().await;
        release.abort();
        let _ = release.await;
        gate.open();
        tokio::time::sleep(secs(1)).await;
        world.assert_nothing_left();
    }
    // Not polled at all.
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    drop(guard.release());
    tokio::time::sleep(millis(10)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn unpolled_grant_is_released() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    world.faulty.next(Op::Acquire, Fault::SlowAnswer(millis(5)));
    {
        let mut acquire = pin!(lock.acquire());
        assert!(acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        tokio::time::sleep(millis(10)).await;
        assert_eq!(world.store.held(), [name("x")], "granted by now, but the future was not polled");
    }
    tokio::time::sleep(millis(10)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn select_with_timeouts_in_a_loop_leaks_nothing() {
    let world = World::with(LockOptions::new().lease(secs(5)));
    world.faulty.always(Op::Acquire, Fault::SlowAnswer(millis(2)));
    let other = world.another_process();
    let rival = tokio::spawn(async move {
        let lock = other.named("x").unwrap();
        loop {
            let guard = lock.acquire().await.unwrap();
            tokio::time::sleep(millis(13)).await;
            drop(guard);
            tokio::time::sleep(millis(11)).await;
        }
    });
    let lock = world.locks.named("x").unwrap();
    let (mut won, mut gave_up) = (0, 0);
    while world.now() < secs(5) {
        tokio::select! {
            guard = lock.acquire() => { won += 1; drop(guard.unwrap()) }
            () = tokio::time::sleep(millis(3)) => gave_up += 1,
        }
        tokio::select! {
            guard = lock.acquire_timeout(millis(7)) => match guard {
                Ok(guard) => { won += 1; drop(guard) }
                Err(_) => gave_up += 1,
            },
            () = tokio::time::sleep(millis(5)) => gave_up += 1,
        }
    }
    assert!(won > 50 && gave_up > 50, "{won} won, {gave_up} gave up");
    rival.abort();
    let _ = rival.await;
    tokio::time::sleep(secs(6)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiters_send_one_request_at_a_time() {
    let world = World::new();
    let rival = world.another_process().named("x").unwrap().acquire().await.unwrap();
    world.faulty.always(Op::Acquire, Fault::SlowAnswer(millis(1)));
    let waiters: Vec<_> = (0..10_000)
        .map(|_| {
            let acquire = world.locks.named("x").unwrap().acquire();
            tokio::spawn(async move { acquire.await.unwrap().release().await.unwrap() })
        })
        .collect();
    tokio::time::sleep(secs(9)).await;
    assert!(world.faulty.calls(Op::Acquire) < 10, "waiting costs the store nothing");
    drop(rival);
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(world.faulty.most_in_flight(Op::Acquire), 1, "one request in flight per process and name");
}

#[tokio::test(start_paused = true)]
async fn guard_of_an_ended_hold_is_not_handed_out() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let rival = lock.acquire().await.unwrap();
    let short = lock.with_fixed_lease(secs(1)).unwrap();
    let mut waiter = pin!(short.acquire());
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiter.as_mut().poll(&mut context).is_pending());
    rival.release().await.unwrap(); // granted to the waiter, whose task does not run for a while
    tokio::time::advance(secs(60)).await;
    let guard = waiter.await.unwrap();
    assert!(guard.is_held(), "it was asked for again");
}

#[tokio::test(start_paused = true)]
async fn try_on_a_free_lock_is_not_refused_by_a_reply_to_a_cancelled_caller() {
    let world = World::new();
    let other = world.another_process();
    let lock = world.locks.named("x").unwrap();
    let held = other.named("x").unwrap().acquire().await.unwrap();
    // Requested and answered `busy`, but the answer is in transit when its caller leaves.
    let gate = world.faulty.gate(Op::Acquire, Phase::After);
    let left = tokio::spawn(lock.acquire());
    gate.reached().await;
    left.abort();
    let _ = left.await;
    held.release().await.unwrap();
    world.settle().await;
    // From here on the lock is free and nobody else waits.
    assert!(world.store.held().is_empty());
    let trying = tokio::spawn(lock.try_acquire());
    world.settle().await;
    drop(gate);
    assert!(trying.await.unwrap().unwrap().is_some(), "the lock was free from before the try began");
}

#[tokio::test(start_paused = true)]
async fn try_is_not_failed_by_the_request_of_a_cancelled_caller() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    world.faulty.next(Op::Acquire, Fault::LoseRequest);
    let gate = world.faulty.gate(Op::Acquire, Phase::After);
    let left = tokio::spawn(lock.acquire());
    gate.reached().await;
    left.abort();
    let _ = left.await;
    // From here on the store works again.
    let trying = tokio::spawn(lock.try_acquire());
    world.settle().await;
    drop(gate);
    let tried = trying.await.unwrap();
    assert!(tried.is_ok(), "{tried:?}");
}

#[tokio::test(start_paused = true)]
async fn killed_holder_does_not_keep_the_lock_for_the_lease_of_a_cancelled_caller() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let long = lock.with_options(LockOptions::new().lease(secs(3_600))).unwrap();
    let short = lock.with_options(LockOptions::new().lease(secs(2))).unwrap();
    let gate = world.faulty.gate(Op::Acquire, Phase::After);
    let left = tokio::spawn(long.acquire());
    gate.reached().await;
    left.abort();
    let _ = left.await;
    let waiting = tokio::spawn(short.acquire());
    world.settle().await;
    drop(gate);
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.remaining() <= secs(2), "it asked for 2 s");
    // Killed: none of its requests reach the store any more.
    world.faulty.always_all(Fault::Hang);
    let next = world.another_process();
    let next = next.named("x").unwrap().acquire_timeout(secs(10)).await;
    assert!(next.is_ok(), "five leases later: {:?}", world.locks.inspect(&name("x")).await.unwrap().stored);
}
