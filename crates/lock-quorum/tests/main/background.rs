//! Background work of a quorum ends, even if a node never answers.

use super::{Fleet, node::Mode, pass, take};
use lock_core::{
    LockName, Retention,
    backend::{
        AcquireMode, AcquireRequest, Acquired, AsyncBackend as _, LeaseId, LeaseNumber, MissedWakes,
        ProcessId, Subscriptions, WakeListener,
    },
    clock::TestClock,
};
use std::{sync::Arc, time::Duration};

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// The next release of a node does not wait for the answer to a lost one.
#[tokio::test(start_paused = true)]
async fn release_without_a_reply_is_repeated() {
    let fleet = Fleet::of(3);
    let process = fleet.process();
    let guard = take(&process).await;
    fleet.set(&[0], Mode::Stopped);
    guard.release().await.unwrap();
    fleet.set(&[0], Mode::Up);
    pass(4).await;
    assert_eq!(fleet.held(), [] as [usize; 0], "long before the lease ends");
}

/// A proposal that was certainly not carried out leaves nothing to release: the work of each hold would otherwise last for
/// its lease.
#[tokio::test(start_paused = true)]
async fn node_that_is_down_leaves_no_work() {
    let fleet = Fleet::of(3);
    fleet.set(&[0], Mode::Down);
    let process = fleet.process();
    take(&process).await.release().await.unwrap();
    pass(1).await;
    let before = tasks();
    for _ in 0..10 {
        take(&process).await.release().await.unwrap();
    }
    pass(1).await;
    assert_eq!(tasks(), before);
}

/// A corrected clock leaves stamps that are far ahead. The undo of such a request still ends with its lease.
#[tokio::test(start_paused = true)]
async fn undo_of_a_distant_stamp_ends_with_its_lease() {
    let fleet = Fleet::of(3);
    let (quorum, process) = (fleet.quorum(), fleet.process());
    let _guard = take(&process).await;
    let before = tasks();
    let request = AcquireRequest {
        name: LockName::new("x").unwrap(),
        lease: LeaseId::new(ProcessId::random(), LeaseNumber::new(7)),
        duration: Duration::from_secs(2),
        not_after: TestClock::WALL_AT_START + Duration::from_secs(3_600),
        mode: AcquireMode::New { reserve: 0, floor: None },
        retention: Retention::Backend,
    };
    fleet.set(&[2], Mode::Stopped);
    assert!(matches!(quorum.acquire(request).await.unwrap().outcome, Acquired::Busy { .. }));
    assert!(tasks() > before, "it is being undone");
    pass(5).await;
    assert_eq!(tasks(), before);
}

#[derive(Debug)]
struct Deaf;

impl WakeListener for Deaf {
    fn released(&self, _: &LockName) {}
    fn wake_all(&self, _: MissedWakes) {}
    fn server_restarted(&self) {}
}

#[tokio::test(start_paused = true)]
async fn failed_subscription_has_the_reply_of_each_node() {
    let (fleet, name) = (Fleet::of(3), LockName::new("x").unwrap());
    let (quorum, listener): (_, Arc<dyn WakeListener>) = (fleet.quorum(), Arc::new(Deaf));
    let id = quorum.register_listener(Arc::downgrade(&listener));
    fleet.set(&[1, 2], Mode::Down);
    let error = quorum.subscribe(id, name).await.unwrap_err();
    let words: Vec<_> = error.votes().iter().map(|vote| vote.kind.as_str()).collect();
    assert_eq!(words, ["acknowledged", "failed", "failed"]);
}

/// A node acknowledges a subscription that has ended meanwhile. It is withdrawn, and that is never answered.
#[tokio::test(start_paused = true)]
async fn late_subscription_is_ended_within_a_limit() {
    let (fleet, name) = (Fleet::of(3), LockName::new("x").unwrap());
    let (quorum, listener): (_, Arc<dyn WakeListener>) = (fleet.quorum(), Arc::new(Deaf));
    let id = quorum.register_listener(Arc::downgrade(&listener));
    fleet.set(&[2], Mode::Slow(Duration::from_secs(1)));
    quorum.subscribe(id, name.clone()).await.unwrap();
    quorum.unsubscribe(id, name).await.unwrap();
    fleet.set(&[2], Mode::Stopped);
    pass(4).await;
    assert_eq!(tasks(), 0);
}
