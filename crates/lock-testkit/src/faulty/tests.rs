//! Tests that every fault has its documented effect and no other.

use super::*;
use lock_core::{
    LockName, MemoryBackend, Retention,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, AsyncBackend as _, Backend as _, BackendError,
        BackendErrorKind, LeaseId, LeaseNumber, NotifyWaiters, ProcessId, ReleaseRequest, Released,
        RenewRequest, Renewed, Reply,
    },
    clock::{TestClock, UtcTime},
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const LEASE: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

type Answer = Result<Reply<Acquired>, BackendError>;

/// A faulty backend over memory, a name, and one lease.
struct Scene {
    memory: MemoryBackend,
    faulty: FaultyBackend,
    name: LockName,
    lease: LeaseId,
}

impl Scene {
    fn new() -> Self {
        let memory = MemoryBackend::with_clock(Arc::new(TestClock::new()));
        let faulty = FaultyBackend::new(memory.clone());
        let lease = LeaseId::new(ProcessId::random(), LeaseNumber::new(1));
        Self { memory, faulty, name: LockName::new("x").unwrap(), lease }
    }

    fn request(&self) -> AcquireRequest {
        let not_after = self.faulty.server_now(&self.name).unwrap() + LEASE;
        let (name, mode) = (self.name.clone(), AcquireMode::New { reserve: 0, floor: None });
        AcquireRequest {
            name,
            lease: self.lease,
            duration: LEASE,
            not_after,
            mode,
            retention: Retention::Backend,
        }
    }

    async fn acquire(&self) -> Answer {
        self.faulty.acquire(self.request()).await
    }

    async fn acquire_within(&self, time: Duration) -> Option<Answer> {
        timeout(time, self.acquire()).await.ok()
    }

    async fn renew(&self, items: usize) -> Vec<Result<Reply<Renewed>, BackendError>> {
        let item = RenewRequest {
            name: self.name.clone(),
            lease: self.lease,
            duration: LEASE,
            not_after: UtcTime::from_micros(u64::MAX),
        };
        self.faulty.renew(vec![item; items]).await
    }

    async fn release(&self) -> Result<Reply<Released>, BackendError> {
        let (name, notify) = (self.name.clone(), NotifyWaiters::Yes);
        self.faulty.release(ReleaseRequest { name, lease: self.lease, depth_left: 0, notify }).await
    }

    fn is_held(&self) -> bool {
        !self.memory.held().is_empty()
    }
}

fn is_granted(answer: &Answer) -> bool {
    matches!(answer, Ok(Reply { outcome: Acquired::Granted { .. }, .. }))
}

fn token(answer: Answer) -> u64 {
    match answer.unwrap().outcome {
        Acquired::Granted { first, .. } => first.get(),
        other => panic!("expected a grant, got {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn calls_without_faults_are_forwarded() {
    let scene = Scene::new();
    assert!(is_granted(&scene.acquire().await));
    assert_eq!(scene.renew(2).await.len(), 2);
    assert!(matches!(scene.release().await.unwrap().outcome, Released::Released { .. }));
    assert_eq!(scene.faulty.capabilities(), scene.memory.capabilities());
    assert_eq!(Op::ALL.map(|op| scene.faulty.calls(op)), [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_precedes_the_operation() {
    let scene = Scene::new();
    scene.faulty.next(Op::Acquire, Fault::Delay(SECOND));
    let start = Instant::now();
    assert!(scene.acquire_within(SECOND / 2).await.is_none());
    assert!(!scene.is_held(), "a call dropped during the delay must not be applied");
    sleep(SECOND * 2).await;
    assert!(!scene.is_held());

    scene.faulty.next(Op::Acquire, Fault::Delay(SECOND));
    let before = start.elapsed();
    assert!(is_granted(&scene.acquire().await));
    assert_eq!(start.elapsed() - before, SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reply_follows_the_operation() {
    let scene = Scene::new();
    scene.faulty.next(Op::Acquire, Fault::SlowAnswer(SECOND));
    assert!(scene.acquire_within(SECOND / 2).await.is_none());
    assert!(scene.is_held(), "the operation must be applied immediately");
}

#[tokio::test(start_paused = true)]
async fn errors_report_if_the_operation_was_applied() {
    use BackendErrorKind::{Denied, Timeout, Unavailable};
    let cases = [
        (Fault::FailBefore(Unavailable), Unavailable, Applied::No, false),
        (Fault::Refuse(Denied), Denied, Applied::No, false),
        (Fault::LoseRequest, Timeout, Applied::Unknown, false),
        (Fault::ApplyThenLose, Timeout, Applied::Unknown, true),
    ];
    for (fault, kind, applied, held) in cases {
        let scene = Scene::new();
        scene.faulty.next(Op::Acquire, fault);
        let error = scene.acquire().await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (kind, applied), "{fault:?}");
        assert_eq!(scene.is_held(), held, "{fault:?}");
        assert_eq!(scene.faulty.applied(Op::Acquire), usize::from(held), "{fault:?}");
        assert!(is_granted(&scene.acquire().await), "{fault:?} must affect one call only");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_is_never_applied() {
    let scene = Scene::new();
    scene.faulty.next(Op::Acquire, Fault::Hang);
    assert!(scene.acquire_within(SECOND * 1000).await.is_none());
    assert_eq!((scene.faulty.applied(Op::Acquire), scene.faulty.in_flight()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_after_being_applied_never_returns() {
    let scene = Scene::new();
    scene.faulty.next(Op::Acquire, Fault::ApplyThenHang);
    assert!(scene.acquire_within(SECOND).await.is_none());
    assert!(scene.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_request_delivered_twice_gets_one_reply() {
    let scene = Scene::new();
    scene.faulty.script(Op::Acquire, [Fault::Twice(Kept::First), Fault::Twice(Kept::Second)]);
    let (first, second) = (token(scene.acquire().await), token(scene.acquire().await));
    assert_eq!(scene.faulty.applied(Op::Acquire), 4);
    let third = token(scene.acquire().await);
    assert!(first < second && second < third);

    scene.faulty.script(Op::Release, [Fault::Twice(Kept::Second)]);
    assert_eq!(scene.release().await.unwrap().outcome, Released::Gone { held_by_other: false });
    assert!(is_granted(&scene.acquire().await));
    scene.faulty.script(Op::Release, [Fault::Twice(Kept::First)]);
    assert!(matches!(scene.release().await.unwrap().outcome, Released::Released { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_late_request_is_applied_after_its_caller_is_gone() {
    let scene = Scene::new();
    scene.faulty.next(Op::Acquire, Fault::Late(SECOND * 5));
    assert!(scene.acquire_within(SECOND).await.is_none());
    assert!(!scene.is_held());
    sleep(SECOND * 3).await;
    assert!(!scene.is_held());
    sleep(SECOND * 2).await;
    assert!(scene.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_fault_affects_all_items() {
    let scene = Scene::new();
    scene.acquire().await.unwrap();
    scene.faulty.next(Op::Renew, Fault::ApplyThenLose);
    let answers = scene.renew(3).await;
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|a| a.as_ref().is_err_and(|e| e.applied() == Applied::Unknown)));
    assert_eq!(scene.faulty.applied(Op::Renew), 1);
}

#[tokio::test(start_paused = true)]
async fn subscribe_and_unsubscribe_can_fail() {
    let scene = Scene::new();
    let nobody = lock_core::backend::SubscriberId::new(7);
    let subscriptions =
        Store::from(scene.faulty.clone()).subscriptions.expect("the memory store pushes wake-ups");
    for op in [Op::Subscribe, Op::Unsubscribe] {
        scene.faulty.next(op, Fault::FailBefore(BackendErrorKind::Unavailable));
    }
    assert!(subscriptions.subscribe(nobody, scene.name.clone()).await.is_err());
    assert!(subscriptions.unsubscribe(nobody, scene.name.clone()).await.is_err());
    subscriptions.subscribe(nobody, scene.name.clone()).await.unwrap();
    assert_eq!(scene.memory.watched(), 1);
    subscriptions.unsubscribe(nobody, scene.name.clone()).await.unwrap();
    assert_eq!(scene.memory.watched(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_script_precedes_the_permanent_fault_and_heal_ends_both() {
    let scene = Scene::new();
    scene.faulty.always_all(Fault::FailBefore(BackendErrorKind::Unavailable));
    scene.faulty.script(Op::Acquire, [Fault::None, Fault::LoseRequest]);
    assert!(is_granted(&scene.acquire().await));
    assert_eq!(scene.acquire().await.unwrap_err().kind(), BackendErrorKind::Timeout);
    for _ in 0..3 {
        assert_eq!(scene.acquire().await.unwrap_err().kind(), BackendErrorKind::Unavailable);
    }
    assert!(scene.release().await.is_err());
    scene.faulty.next(Op::Acquire, Fault::Hang);
    scene.faulty.heal();
    assert!(is_granted(&scene.acquire().await));
    assert!(scene.release().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_faults() {
    async fn run(seed: u64) -> Vec<String> {
        let scene = Scene::new();
        scene.faulty.random(seed, 0.5);
        assert_eq!(scene.faulty.seed().map(Seed::get), Some(seed));
        let mut story = Vec::new();
        for _ in 0..60 {
            let (start, applied) = (Instant::now(), scene.faulty.applied(Op::Acquire));
            let answer = scene.acquire_within(SECOND * 10).await.map(|answer| answer.is_ok());
            let applied = scene.faulty.applied(Op::Acquire) - applied;
            story.push(format!("{answer:?} {applied} {:?}", start.elapsed()));
        }
        scene.faulty.heal();
        assert_eq!(scene.faulty.seed(), None);
        story
    }
    let story = run(7).await;
    assert_eq!(story, run(7).await);
    assert_ne!(story, run(8).await);
    let quiet = story.iter().filter(|line| line.starts_with("Some(true) 1 0ns")).count();
    assert!((15..45).contains(&quiet), "about half of the calls must have no fault: {quiet}");
}

#[tokio::test(start_paused = true)]
async fn a_gate_stops_a_call_before_it_is_applied() {
    let scene = Scene::new();
    let gate = scene.faulty.gate(Op::Acquire, Phase::Before);
    assert!(!gate.is_reached());
    let call = tokio::spawn({
        let (faulty, request) = (scene.faulty.clone(), scene.request());
        async move { faulty.acquire(request).await }
    });
    gate.reached().await;
    assert!(!scene.is_held());
    assert_eq!(scene.faulty.in_flight(), 1);
    gate.open();
    assert!(is_granted(&call.await.unwrap()));
    assert!(is_granted(&scene.acquire().await), "a gate must stop one call only");
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_before_it_is_applied_has_no_effect() {
    let scene = Scene::new();
    let gate = scene.faulty.gate(Op::Acquire, Phase::Before);
    assert!(scene.acquire_within(SECOND).await.is_none());
    assert!(gate.is_reached());
    gate.open();
    sleep(SECOND).await;
    assert!(!scene.is_held());
    assert_eq!((scene.faulty.calls(Op::Acquire), scene.faulty.applied(Op::Acquire)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_gate_stops_a_call_between_effect_and_reply() {
    let scene = Scene::new();
    let gate = scene.faulty.gate(Op::Acquire, Phase::After);
    let call = tokio::spawn({
        let (faulty, request) = (scene.faulty.clone(), scene.request());
        async move { faulty.acquire(request).await }
    });
    gate.reached().await;
    assert!(scene.is_held());
    assert!(!call.is_finished());
    drop(gate);
    assert!(is_granted(&call.await.unwrap()), "a dropped gate must be open");
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_are_counted_until_they_are_dropped() {
    let scene = Scene::new();
    scene.faulty.always(Op::Acquire, Fault::SlowAnswer(SECOND));
    let (_, _, gone) = tokio::join!(scene.acquire(), scene.acquire(), scene.acquire_within(SECOND / 2));
    assert!(gone.is_none());
    assert_eq!((scene.faulty.in_flight(), scene.faulty.most_in_flight(Op::Acquire)), (0, 3));
    assert_eq!(scene.faulty.most_in_flight(Op::Release), 0);
}
