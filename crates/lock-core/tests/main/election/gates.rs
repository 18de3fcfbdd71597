//! The future of a leadership is dropped at each gate: nothing is left, and each term has an end.

use super::{Log, candidate};
use crate::support::{World, secs};
use lock_core::election::{Election, Role};
use lock_testkit::{Gate, Op, Phase};
use std::future::pending;
use tokio::{task::JoinHandle, time::sleep};

/// Leads with a body that fails after 10 s.
fn lead(election: &Election, log: &Log) -> JoinHandle<()> {
    let log = log.clone();
    let leading = election.lead(move |_| {
        let dropped = log.at_drop("body dropped");
        async move {
            let _dropped = dropped;
            sleep(secs(10)).await;
            Err::<(), _>("it fails")
        }
    });
    tokio::spawn(async move { drop(leading.until(pending()).await) })
}

async fn drop_it(world: &World, election: &Election, leading: JoinHandle<()>, gate: Option<Gate>) {
    leading.abort();
    assert!(leading.await.is_err_and(|error| error.is_cancelled()));
    assert!(matches!(*election.role().borrow(), Role::Idle));
    drop(gate);
    // A subscription lingers for a while.
    sleep(secs(5)).await;
    assert_eq!((world.store.held().len(), world.store.watched()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn dropped_at_a_gate_of_the_campaign() {
    for held in [false, true] {
        for (op, nth) in [(Op::Acquire, 0), (Op::Subscribe, 0), (Op::Acquire, 1)] {
            for phase in [Phase::Before, Phase::After] {
                if !held && (op, nth) != (Op::Acquire, 0) {
                    continue; // a free lock is granted at the first try
                }
                let world = World::new();
                let other = world.another_process().named("x").unwrap();
                let guard = if held { Some(other.acquire().await.unwrap()) } else { None };
                let (election, log) = candidate(&world);
                (0..nth).for_each(|_| world.faulty.gate(op, phase).open());
                let gate = world.faulty.gate(op, phase);
                let leading = lead(&election, &log);
                gate.reached().await;
                drop(guard);
                drop_it(&world, &election, leading, Some(gate)).await;
                assert_eq!(log.take(), [""; 0], "no term began: {op:?} {nth} {phase:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_in_a_term() {
    let world = World::new();
    let (election, log) = candidate(&world);
    let leading = lead(&election, &log);
    sleep(secs(5)).await;
    drop_it(&world, &election, leading, None).await;
    assert_eq!(log.take(), ["term started", "body dropped", "term cancelled", "hold ended"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_at_a_gate_of_the_release() {
    for phase in [Phase::Before, Phase::After] {
        let world = World::new();
        let (election, log) = candidate(&world);
        let gate = world.faulty.gate(Op::Release, phase);
        let leading = lead(&election, &log);
        gate.reached().await;
        drop_it(&world, &election, leading, Some(gate)).await;
        assert_eq!(log.take(), ["term started", "body dropped", "term failed: it fails", "hold ended"]);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_in_a_pause() {
    let world = World::new();
    let (election, log) = candidate(&world);
    let leading = lead(&election, &log);
    sleep(secs(11)).await;
    drop_it(&world, &election, leading, None).await;
    assert_eq!(log.take(), ["term started", "body dropped", "term failed: it fails", "hold ended"]);
}
