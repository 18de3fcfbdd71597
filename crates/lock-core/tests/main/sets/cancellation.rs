//! A set may be dropped at any await.

use crate::{
    cancellation::counted,
    support::{World, millis, secs},
};
use lock_core::{LockFactory, LockGuard};
use lock_testkit::{Fault, Gate, Op, Phase, Seed};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The request of a set at which it is stopped: the acquire of each lock, and the subscription of the one that it waits for.
#[derive(Debug, Clone, Copy)]
struct Stop {
    op: Op,
    phase: Phase,
    /// The number of acquires before it.
    after: usize,
    /// The lock that another process holds.
    busy: Option<&'static str>,
}

fn stops() -> Vec<Stop> {
    let mut stops = Vec::new();
    for phase in [Phase::Before, Phase::After] {
        for (after, name) in NAMES.into_iter().enumerate() {
            stops.push(Stop { op: Op::Acquire, phase, after, busy: None });
            stops.push(Stop { op: Op::Acquire, phase, after, busy: Some(name) });
            stops.push(Stop { op: Op::Subscribe, phase, after: 0, busy: Some(name) });
            // The try that follows the subscription.
            stops.push(Stop { op: Op::Acquire, phase, after: after + 1, busy: Some(name) });
        }
    }
    stops
}

/// The gate of the request after so many acquires, reached.
async fn reach(world: &World, Stop { op, phase, after, .. }: Stop) -> Gate {
    let mut before = (after > 0).then(|| world.faulty.gate(Op::Acquire, Phase::After));
    let mut gate = before.is_none().then(|| world.faulty.gate(op, phase));
    for passed in 1..=after {
        let Some(skipped) = before.take() else { break };
        skipped.reached().await;
        match passed == after {
            true => gate = Some(world.faulty.gate(op, phase)),
            false => before = Some(world.faulty.gate(Op::Acquire, Phase::After)),
        }
        skipped.open();
    }
    let gate = gate.expect("the last is the one");
    gate.reached().await;
    gate
}

async fn held(locks: &LockFactory, busy: Option<&'static str>) -> Option<LockGuard> {
    match busy {
        Some(name) => Some(locks.named(name).unwrap().acquire().await.unwrap()),
        None => None,
    }
}

#[tokio::test(start_paused = true)]
async fn set_dropped_at_any_gate_leaves_no_key() {
    for stop in stops() {
        for world in World::both() {
            let rival = held(&world.another_process(), stop.busy).await;
            let set = world.locks.all(NAMES).unwrap();
            let waiting = tokio::spawn(set.acquire());
            let gate = reach(&world, stop).await;
            let behind = tokio::spawn(set.acquire());
            world.settle().await;
            waiting.abort();
            assert!(waiting.await.unwrap_err().is_cancelled());
            gate.open();
            drop(rival);
            let guard = tokio::time::timeout(secs(6), behind).await;
            let guard =
                guard.unwrap_or_else(|_| panic!("the set behind is stuck: {stop:?}")).unwrap().unwrap();
            assert!(
                guard.release().await.iter().all(|(_, how)| how.as_ref().unwrap().was_held()),
                "{stop:?}"
            );
            tokio::time::sleep(secs(3)).await;
            world.assert_nothing_left();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn set_that_times_out_at_any_gate_leaves_no_key() {
    for stop in stops() {
        for world in World::both() {
            let rival = held(&world.another_process(), stop.busy).await;
            let set = world.locks.all(NAMES).unwrap();
            let waiting = tokio::spawn(set.acquire_timeout(secs(2)));
            let gate = reach(&world, stop).await;
            // The request stays where it is until the set has given up.
            let error = waiting.await.unwrap().unwrap_err();
            assert!(error.is_retryable(), "{stop:?}: {error:?}");
            gate.open();
            drop(rival);
            tokio::time::sleep(secs(40)).await;
            world.assert_nothing_left();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn set_dropped_while_releasing_continues_in_the_background() {
    for phase in [Phase::Before, Phase::After] {
        for world in World::both() {
            let rival = held(&world.another_process(), Some("c")).await;
            let gate = world.faulty.gate(Op::Release, phase);
            let trying = tokio::spawn(world.locks.all(NAMES).unwrap().try_acquire());
            gate.reached().await;
            trying.abort();
            assert!(trying.await.unwrap_err().is_cancelled());
            gate.open();
            drop(rival);
            tokio::time::sleep(secs(3)).await;
            world.assert_nothing_left();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn release_dropped_at_any_gate_continues_in_the_background() {
    for phase in [Phase::Before, Phase::After] {
        for world in World::both() {
            let guard = world.locks.all(NAMES).unwrap().acquire().await.unwrap();
            let gate = world.faulty.gate(Op::Release, phase);
            let release = tokio::spawn(guard.release());
            gate.reached().await;
            release.abort();
            assert!(release.await.unwrap_err().is_cancelled());
            gate.open();
            tokio::time::sleep(secs(1)).await;
            world.assert_nothing_left();
        }
    }
    // Not even polled once.
    let world = World::new();
    drop(world.locks.all(NAMES).unwrap().acquire().await.unwrap().release());
    drop(world.locks.all(NAMES).unwrap().acquire());
    tokio::time::sleep(millis(10)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn two_thousand_sets_dropped_at_random_leave_nothing() {
    let mut seed = Seed::new(0x0005_E75E).stream();
    let mut world = World::new();
    let (locks, counters) = counted(&world);
    world.locks = locks;
    world.faulty.always(Op::Acquire, Fault::SlowAnswer(millis(3)));
    world.faulty.always(Op::Release, Fault::Delay(millis(2)));
    world.faulty.always(Op::Subscribe, Fault::SlowAnswer(millis(4)));
    let other = world.another_process();
    let (mut acquired, mut dropped) = (0, 0);
    for _ in 0..2_000 {
        let rival = match seed.below(3) {
            0 => other
                .named(NAMES[usize::try_from(seed.below(3)).unwrap()])
                .unwrap()
                .try_acquire()
                .await
                .unwrap(),
            _ => None,
        };
        let set = world.locks.all(NAMES).unwrap();
        let behind = (seed.below(3) == 0).then(|| tokio::spawn(set.acquire()));
        let patience = std::time::Duration::from_micros(seed.below(20_000));
        match tokio::time::timeout(patience, set.acquire()).await {
            Ok(guard) => {
                acquired += 1;
                drop(guard.unwrap());
            }
            Err(_) => dropped += 1,
        }
        drop(rival);
        if let Some(behind) = behind {
            let guard = tokio::time::timeout(secs(10), behind).await.expect("the set behind continues");
            guard.unwrap().unwrap().release().await;
        }
    }
    assert!(acquired > 300 && dropped > 300, "{acquired} acquired, {dropped} dropped");
    tokio::time::sleep(secs(3)).await;
    world.assert_nothing_left();
    counters.assert_zero();
}
