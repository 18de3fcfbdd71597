//! A quorum of in-memory nodes that fail: decisions, undos, heals, quarantine, wake-ups.

#![allow(clippy::unwrap_used)]

mod background;
mod conformance;
mod node;
mod silence;

use lock_core::{
    LockErrorKind, LockFactory, LockGuard, LockName, MemoryBackend,
    backend::{AsyncBackend as _, LeaseId, LeaseNumber, NotifyWaiters, ProcessId, ReleaseRequest, Released},
    clock::TestClock,
    observer::{LockEvent, LockEventKind, LockObserver},
};
use lock_quorum::{Member, QuorumBackend};
use node::{Mode, TestNode};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const MAX_LEASE: Duration = Duration::from_secs(30);

struct Fleet {
    nodes: Vec<TestNode>,
    is_durable: bool,
}

impl Fleet {
    fn of(nodes: usize) -> Self {
        Self { nodes: (0..nodes).map(|_| TestNode::new()).collect(), is_durable: true }
    }

    /// Creates nodes that had to prove that they kept their data, and did.
    async fn proven(nodes: usize) -> Self {
        let fleet = Self { is_durable: false, ..Self::of(nodes) };
        tokio::time::sleep(MAX_LEASE).await;
        fleet
    }

    fn members(&self) -> Vec<Member> {
        let member = |(number, node): (usize, &TestNode)| {
            let member = Member::new(format!("node-{number}"), node.clone());
            if self.is_durable { member.durable() } else { member }
        };
        self.nodes.iter().enumerate().map(member).collect()
    }

    fn quorum(&self) -> QuorumBackend {
        QuorumBackend::builder(self.members()).clock(Arc::new(TestClock::new())).build().unwrap()
    }

    /// Creates another process.
    fn process(&self) -> LockFactory {
        LockFactory::builder(self.quorum()).clock(Arc::new(TestClock::new())).build().unwrap()
    }

    /// Returns the nodes with a held lock.
    fn held(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| !self.nodes[*node].memory.held().is_empty()).collect()
    }

    fn set(&self, nodes: &[usize], mode: Mode) {
        nodes.iter().for_each(|node| self.nodes[*node].set(mode));
    }
}

async fn take(process: &LockFactory) -> LockGuard {
    process.named("x").unwrap().acquire().await.unwrap()
}

async fn tries(process: &LockFactory) -> bool {
    process.named("x").unwrap().try_acquire().await.unwrap().is_some()
}

/// Lets background work run for this time.
async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn minority_can_be_down() {
    let fleet = Fleet::of(5);
    fleet.set(&[1, 4], Mode::Down);
    let (a, b) = (fleet.process(), fleet.process());
    let guard = take(&a).await;
    assert_eq!(fleet.held(), [0, 2, 3]);
    assert!(!tries(&b).await);
    guard.release().await.unwrap();
    let next = take(&b).await;
    assert!(next.is_held());
}

/// A decision needs a majority and waits for no other node.
#[tokio::test(start_paused = true)]
async fn stopped_node_delays_no_decision() {
    let fleet = Fleet::of(5);
    fleet.set(&[2], Mode::Stopped);
    let (process, begun) = (fleet.process(), tokio::time::Instant::now());
    for _ in 0..10 {
        let guard = take(&process).await;
        assert!(guard.release().await.unwrap().was_held());
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn majority_that_is_down_is_an_error_with_votes() {
    let fleet = Fleet::of(5);
    fleet.set(&[0, 1, 3], Mode::Down);
    let error = fleet.process().named("x").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    let votes = error.backend_error().unwrap().votes();
    let words: Vec<_> = votes.iter().map(|vote| vote.kind.as_str()).collect();
    // The third failure decides the round; the last node had not answered.
    assert_eq!(words, ["failed", "failed", "granted", "failed", "no_answer"]);
    let text = format!("{error:#}");
    assert!(
        text.contains("fewer than 3 nodes granted the lock") && text.contains("node-0: failed"),
        "{text}"
    );
    pass(1).await;
    assert_eq!(fleet.held(), [] as [usize; 0], "what a minority granted is undone");
}

#[tokio::test(start_paused = true)]
async fn inspection_has_the_reply_of_each_node() {
    let fleet = Fleet::of(5);
    fleet.set(&[3], Mode::Down);
    let process = fleet.process();
    let guard = take(&process).await;
    let inspection = process.inspect("x").await.unwrap();
    assert_eq!(inspection.stored.unwrap().depth, 1);
    let words: Vec<_> = inspection.votes.iter().map(|vote| vote.kind.as_str()).collect();
    // Three nodes decide; the last one was not awaited.
    assert_eq!(words, ["held", "held", "held", "no_answer", "no_answer"]);
    guard.release().await.unwrap();
    let inspection = process.inspect("x").await.unwrap();
    assert!(inspection.stored.is_none());
    assert!(inspection.votes.iter().any(|vote| vote.kind.as_str() == "free"));
}

#[tokio::test(start_paused = true)]
async fn majority_that_is_stopped_is_an_error_with_votes() {
    let fleet = Fleet::of(3);
    fleet.set(&[0, 1], Mode::Stopped);
    let error = fleet.process().named("x").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    let votes = error.backend_error().unwrap().votes();
    assert_eq!(votes[0].kind.as_str(), "no_answer");
    assert_eq!(votes[2].kind.as_str(), "granted");
    pass(1).await;
    assert_eq!(fleet.held(), [] as [usize; 0]);
}

/// A grant whose answer was lost is released once the node is reachable again.
#[tokio::test(start_paused = true)]
async fn lost_replies_leave_no_orphan() {
    let fleet = Fleet::of(3);
    fleet.set(&[0, 1], Mode::Mute);
    let process = fleet.process();
    assert!(process.named("x").unwrap().try_acquire().await.is_err());
    pass(1).await;
    fleet.set(&[0, 1], Mode::Up);
    pass(8).await;
    assert_eq!(fleet.held(), [] as [usize; 0], "long before the leases end");
    drop(take(&process).await);
}

/// A holder on nodes 0 to 2; node 2 restarts empty; the contender gets the votes of 3 and 4, and a refusal from 2.
#[tokio::test(start_paused = true)]
async fn restarted_node_does_not_vote_until_leases_are_over() {
    let fleet = Fleet::proven(5).await;
    fleet.set(&[3, 4], Mode::Down);
    let (a, b) = (fleet.process(), fleet.process());
    let guard = a.named("x").unwrap().with_fixed_lease(MAX_LEASE).unwrap().acquire().await.unwrap();
    fleet.set(&[3, 4], Mode::Up);
    fleet.nodes[2].memory.clear();
    assert_eq!(fleet.held(), [0, 1]);
    while guard.is_held() {
        assert!(!tries(&b).await, "a second holder");
        pass(1).await;
    }
    pass(1).await;
    assert!(tries(&b).await, "the quarantine has ended with the lease");
}

/// The same with nodes that are wrongly declared durable, which shows that the test above can fail.
#[tokio::test(start_paused = true)]
async fn false_declaration_of_durability_gives_two_holders() {
    let fleet = Fleet::of(5);
    fleet.set(&[3, 4], Mode::Down);
    let (a, b) = (fleet.process(), fleet.process());
    let guard = take(&a).await;
    fleet.set(&[3, 4], Mode::Up);
    fleet.nodes[2].memory.clear();
    assert!(tries(&b).await && guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn new_fleet_reports_how_long_it_waits() {
    let fleet = Fleet { is_durable: false, ..Fleet::of(3) };
    let process = fleet.process();
    pass(10).await;
    let error = process.named("x").unwrap().try_acquire().await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("a majority can vote in 20.0s") && text.contains("node-0: quarantine"), "{text}");
    let guard = take(&process).await;
    assert!(guard.is_held(), "a waiting acquire outlasts the quarantine");
}

#[tokio::test(start_paused = true)]
async fn renewal_heals_a_node_that_lost_its_data() {
    let fleet = Fleet::of(3);
    let process = fleet.process();
    let guard = take(&process).await;
    fleet.nodes[1].memory.clear();
    assert_eq!(fleet.held(), [0, 2]);
    pass(15).await;
    assert_eq!(fleet.held(), [0, 1, 2], "healed by a renewal");
    fleet.set(&[0], Mode::Down);
    pass(60).await;
    assert!(guard.is_held(), "and its answers count");
    fleet.set(&[0], Mode::Up);
    guard.release().await.unwrap();
    pass(1).await;
    assert_eq!(fleet.held(), [] as [usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn majority_that_lost_the_lease_ends_the_hold() {
    let fleet = Fleet::of(3);
    let guard = take(&fleet.process()).await;
    fleet.nodes[0].memory.clear();
    fleet.nodes[1].memory.clear();
    pass(15).await;
    assert!(!guard.is_held(), "long before its deadline");
}

/// A lost round wakes no waiter: here two processes wait while a third holds a bare majority.
#[tokio::test(start_paused = true)]
async fn undo_of_a_lost_round_wakes_nobody() {
    let fleet = Fleet::of(3);
    fleet.set(&[2], Mode::Down);
    let (a, b, c) = (fleet.process(), fleet.process(), fleet.process());
    let guard = take(&a).await;
    fleet.set(&[2], Mode::Up);
    let before = fleet.nodes[0].proposals();
    let take_and_release = async |process| take(&process).await.release().await.unwrap();
    let waiters = [b, c].map(|process| tokio::spawn(async move { take_and_release(process).await }));
    // Counted in turns, not in time: if waiters wake each other forever, paused time never advances.
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    let rounds = fleet.nodes[0].proposals() - before;
    assert!((2..20).contains(&rounds), "they wake one another: {rounds} rounds");
    pass(5).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn release_wakes_waiters_of_other_processes_once_a_majority_reports_it() {
    let fleet = Fleet::of(3);
    let (a, b) = (fleet.process(), fleet.process());
    let guard = take(&a).await;
    let waiter = tokio::spawn(async move { take(&b).await });
    pass(1).await;
    fleet.set(&[1], Mode::Stopped);
    let begun = tokio::time::Instant::now();
    guard.release().await.unwrap();
    drop(waiter.await.unwrap());
    assert!(begun.elapsed() < Duration::from_millis(50), "not by a poll: {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn all_contenders_get_a_turn() {
    let fleet = Fleet::of(5);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let process = fleet.process();
        tasks.spawn(async move {
            let guard = take(&process).await;
            let token = guard.fencing_token();
            tokio::time::sleep(Duration::from_millis(3)).await;
            assert!(guard.release().await.unwrap().was_held());
            token
        });
    }
    let mut tokens = Vec::new();
    while let Some(token) = tasks.join_next().await {
        tokens.push(token.unwrap());
    }
    assert!(tokens.len() == 10 && tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    pass(5).await;
    assert_eq!(fleet.held(), [] as [usize; 0]);
}

/// Its lease may have expired long ago; the answer of a majority is awaited anyway.
#[tokio::test(start_paused = true)]
async fn release_of_an_unknown_lease_waits_for_its_reply() {
    let fleet = Fleet::of(3);
    fleet.set(&[0, 1, 2], Mode::Slow(Duration::from_millis(5)));
    let (process, name) = (fleet.process(), LockName::new("x").unwrap());
    let (lease, notify) = (LeaseId::new(ProcessId::random(), LeaseNumber::new(7)), NotifyWaiters::Yes);
    let request = ReleaseRequest { name, lease, depth_left: 0, notify };
    let released = fleet.quorum().release(request).await.unwrap();
    assert_eq!(released.outcome, Released::Gone { held_by_other: false });
    let guard = take(&process).await;
    assert!(guard.release().await.unwrap().was_held());
}

#[tokio::test(start_paused = true)]
async fn forced_release_needs_a_majority() {
    let fleet = Fleet::of(3);
    let process = fleet.process();
    let _guard = take(&process).await;
    fleet.set(&[0, 1], Mode::Down);
    assert!(process.force_release("x").await.is_err());
    fleet.set(&[0, 1], Mode::Up);
    process.force_release("x").await.unwrap();
    pass(1).await;
    assert_eq!(fleet.held(), [] as [usize; 0]);
}

/// The votes, as one line per decision.
#[derive(Debug, Default)]
struct Votes(Mutex<Vec<String>>);

impl LockObserver for Votes {
    fn on_event(&self, event: &LockEvent<'_>) {
        if let LockEventKind::Voted { votes, .. } = &event.kind {
            self.0.lock().unwrap().push(votes.to_string());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn observers_see_the_vote_of_each_node() {
    let (fleet, seen) = (Fleet::of(3), Arc::new(Votes::default()));
    fleet.set(&[1], Mode::Down);
    let process = LockFactory::builder(fleet.quorum()).clock(Arc::new(TestClock::new()));
    let process = process.observer(seen.clone()).build().unwrap();
    take(&process).await.release().await.unwrap();
    let seen = seen.0.lock().unwrap();
    assert_eq!(seen[0], "node-0: granted, node-1: failed (is down), node-2: granted");
    assert_eq!(seen[1], "node-0: released, node-1: failed (is down), node-2: released");
}

#[tokio::test(start_paused = true)]
async fn ineffective_settings_are_refused() {
    let members = |nodes| Fleet::of(nodes).nodes.into_iter().map(|node| Member::new("n", node));
    let two = QuorumBackend::builder(members(2)).build().unwrap_err();
    assert!(format!("{two:#}").contains("use at least 3"), "{two:#}");
    let short = QuorumBackend::builder(members(3)).max_lease(Duration::from_secs(4)).build().unwrap_err();
    assert_eq!(short.kind(), LockErrorKind::InvalidOptions);
    let long = Fleet::of(3).process().named("x").unwrap().with_fixed_lease(MAX_LEASE * 2).unwrap_err();
    assert_eq!(long.kind(), LockErrorKind::InvalidOptions, "longer than the quarantine");
    assert!(QuorumBackend::builder(members(4)).build().is_ok(), "with a warning");
}

#[tokio::test]
async fn quorum_has_the_stored_name() {
    let nodes = [(); 3].map(|()| MemoryBackend::new());
    let member = |(number, node): (usize, &MemoryBackend)| {
        Member::new(format!("node-{number}"), node.clone()).durable()
    };
    let members = nodes.iter().enumerate().map(member).collect::<Vec<_>>();
    let quorum = QuorumBackend::builder(members).build().unwrap();
    let locks = LockFactory::builder(quorum).prefix("shop").build().unwrap();
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    assert!(nodes.iter().filter(|node| node.held() == [LockName::new("shop:x").unwrap()]).count() >= 2);
    guard.release().await.unwrap();
}
