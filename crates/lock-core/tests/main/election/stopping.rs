//! Shutdowns and resignations: the body ends first, then the lock is released.

use super::{Log, candidate, seconds};
use crate::support::{World, secs};
use lock_core::{
    LockErrorKind,
    election::{Election, ElectionOptions, LeadEnd, Role, Term},
};
use lock_testkit::{Op, Phase};
use std::{
    convert::Infallible,
    future::{Future, pending},
};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

/// A body that never ends, and writes when it is dropped.
fn endless(log: &Log) -> impl FnMut(Term) -> BoxFuture + Send + 'static {
    let log = log.clone();
    move |_| {
        let dropped = log.at_drop("body dropped");
        Box::pin(async move {
            let _dropped = dropped;
            pending().await
        })
    }
}

type BoxFuture = std::pin::Pin<Box<dyn Future<Output = Result<(), Infallible>> + Send>>;

/// Another process that campaigns until it is aborted.
fn another(world: &World) -> (Election, JoinHandle<()>) {
    let election = world.another_process().election("x").unwrap();
    let leading = election.lead(|_| pending::<Result<(), Infallible>>());
    let task = tokio::spawn(async move { drop(leading.until(pending()).await) });
    (election, task)
}

#[tokio::test(start_paused = true)]
async fn shutdown_withdraws_a_campaign_immediately() {
    let world = World::new();
    let held = world.another_process().named("x").unwrap().acquire().await.unwrap();
    let (election, log) = candidate(&world);
    let began = seconds(&world);
    let leading = election.lead(endless(&log)).until(sleep(secs(5)));
    assert_eq!(leading.await.unwrap(), LeadEnd::Stopped);
    assert!(seconds(&world) - began < 5.01);
    assert_eq!(log.take(), [""; 0]);
    held.release().await.unwrap();
    sleep(secs(3)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn completed_shutdown_starts_no_campaign() {
    let world = World::new();
    let (election, log) = candidate(&world);
    assert_eq!(election.lead(endless(&log)).until(async {}).await.unwrap(), LeadEnd::Stopped);
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_the_body_first_and_releases_second() {
    let world = World::new();
    let (election, log) = candidate(&world);
    let gate = world.faulty.gate(Op::Release, Phase::Before);
    let leading = tokio::spawn(election.lead(endless(&log)).until(sleep(secs(5))));
    sleep(secs(1)).await;
    let (next, task) = another(&world);
    gate.reached().await;
    assert_eq!(log.take(), ["term started", "body dropped", "term stopped", "hold ended"]);
    assert!(matches!(*election.role().borrow(), Role::Following { leader: None }));
    assert!(!leading.is_finished() && !next.role().borrow().is_leading());
    gate.open();
    assert_eq!(leading.await.unwrap().unwrap(), LeadEnd::Stopped);
    let at = seconds(&world);
    world.settle().await;
    assert!(next.role().borrow().is_leading() && seconds(&world) == at, "the next one leads at once");
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn shutdown_during_a_pause_stops_immediately() {
    let world = World::new();
    let (election, log) = candidate(&world);
    let began = seconds(&world);
    let leading = election.lead(|_| async { Err::<(), _>("no") }).until(sleep(secs(20)));
    assert_eq!(leading.await.unwrap(), LeadEnd::Stopped);
    assert!(seconds(&world) - began < 20.01, "it paused for 16 s at least");
    assert!(log.take().contains(&"term failed: no".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn body_ends_by_itself_within_the_grace() {
    for (works, lines) in [
        (4, ["term started", "body ended", "body dropped", "term stopped", "hold ended"].as_slice()),
        (6, ["term started", "body dropped", "term stopped", "hold ended"].as_slice()),
    ] {
        let world = World::new();
        let (election, log) = candidate(&world);
        let election = election.with_options(ElectionOptions::new().grace(secs(5))).unwrap();
        let written = log.clone();
        let leading = election.lead(move |term| {
            let (log, dropped) = (written.clone(), written.at_drop("body dropped"));
            async move {
                let _dropped = dropped;
                term.stopping().await;
                sleep(secs(works)).await;
                assert!(term.is_leading(), "the lease is renewed meanwhile");
                log.write("body ended");
                Ok::<_, Infallible>(())
            }
        });
        let began = seconds(&world);
        assert_eq!(leading.until(sleep(secs(100))).await.unwrap(), LeadEnd::Stopped);
        let took = seconds(&world) - began;
        assert!((104.0..105.01).contains(&took), "{took} s");
        assert_eq!(log.take(), lines);
    }
}

#[tokio::test(start_paused = true)]
async fn loss_during_the_grace_period_ends_the_body_immediately() {
    let world = World::new();
    let (election, log) = candidate(&world);
    let election = election.with_options(ElectionOptions::new().grace(secs(100))).unwrap();
    let leading = tokio::spawn(election.lead(endless(&log)).until(sleep(secs(1))));
    sleep(secs(2)).await;
    world.another_process().force_release("x").await.unwrap();
    let end = timeout(secs(15), leading).await.expect("the next renewal finds out");
    assert_eq!(end.unwrap().unwrap(), LeadEnd::Stopped);
    assert_eq!(log.take(), ["term started", "hold ended", "body dropped", "term lost"]);
}

#[tokio::test(start_paused = true)]
async fn resignation_lets_another_lead_immediately() {
    let world = World::new();
    let (election, log) = candidate(&world);
    let leading = tokio::spawn(election.lead(endless(&log)).until(pending()));
    sleep(secs(1)).await;
    let (next, task) = another(&world);
    sleep(secs(1)).await;
    let at = seconds(&world);
    election.resign();
    world.settle().await;
    assert_eq!(log.take(), ["term started", "body dropped", "term resigned", "hold ended"]);
    assert!(next.role().borrow().is_leading() && seconds(&world) == at);
    sleep(secs(60)).await;
    assert!(next.role().borrow().is_leading(), "and it stays the leader");
    assert!(election.role().borrow().leader().is_some(), "the other one follows");
    task.abort();
    sleep(secs(5)).await;
    assert!(election.role().borrow().is_leading(), "and leads again when it can");
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn resignation_of_a_follower_ends_no_later_term() {
    let world = World::new();
    let (other, task) = another(&world);
    sleep(secs(1)).await;
    let (election, log) = candidate(&world);
    let leading = tokio::spawn(election.lead(endless(&log)).until(pending()));
    sleep(secs(1)).await;
    election.resign();
    task.abort();
    sleep(secs(60)).await;
    assert!(election.role().borrow().is_leading());
    assert_eq!(log.take(), ["term started"]);
    drop(other);
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn factory_shutdown_ends_the_term_and_the_campaigns() {
    let world = World::new();
    let (election, log) = (world.locks.election("x").unwrap(), Log::default());
    let leading = tokio::spawn(election.lead(endless(&log)).until(pending()));
    sleep(secs(1)).await;
    assert!(election.role().borrow().is_leading());
    let at = seconds(&world);
    assert!(world.locks.shutdown().await.is_clean());
    let error = leading.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::ShutDown);
    assert_eq!(log.take(), ["body dropped"]);
    assert!(seconds(&world) - at < 0.1, "no pause comes before it");
    assert!(matches!(*election.role().borrow(), Role::Idle));
}

#[tokio::test(start_paused = true)]
async fn second_call_of_lead_waits_for_the_first() {
    let world = World::new();
    let (election, log) = candidate(&world);
    let first = tokio::spawn(election.lead(endless(&log)).until(sleep(secs(10))));
    sleep(secs(1)).await;
    let second = tokio::spawn(election.lead(|_| async { Ok::<_, Infallible>(()) }).until(pending()));
    sleep(secs(8)).await;
    assert!(!second.is_finished() && election.role().borrow().is_leading());
    assert_eq!(first.await.unwrap().unwrap(), LeadEnd::Stopped);
    assert_eq!(second.await.unwrap().unwrap(), LeadEnd::Finished);
    // One that waits for its turn is stopped as well.
    let _leading = tokio::spawn(election.lead(endless(&log)).until(pending()));
    sleep(secs(1)).await;
    let third = election.lead(endless(&log)).until(sleep(secs(1)));
    assert_eq!(third.await.unwrap(), LeadEnd::Stopped);
    assert!(election.role().borrow().is_leading(), "the role is that of the first");
}
