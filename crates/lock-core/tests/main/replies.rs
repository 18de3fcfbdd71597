//! Lost, duplicated and late replies: no double grant, no orphan, no false loss.

use crate::support::{World, millis, name, secs};
use lock_core::{
    Hold, HoldEnd, LockErrorKind, LockFactory, LockGuard, LockName, LockOptions, LostReason, ReleaseOutcome,
    RunError,
    backend::BackendErrorKind,
    clock::{Clock, Moment},
    observer::{LockEvent, LockEventKind, LockObserver},
};
use lock_testkit::{Fault, FaultyBackend, Kept, Op, Seed, Stream};
use std::sync::{Arc, Mutex};

/// Returns the faults of an operation that is executed, or may be.
fn faults() -> [Fault; 7] {
    [
        Fault::ApplyThenLose,
        Fault::ApplyThenHang,
        Fault::LoseRequest,
        Fault::Twice(Kept::First),
        Fault::Twice(Kept::Second),
        Fault::SlowAnswer(secs(2)),
        Fault::Late(millis(3_500)),
    ]
}

#[tokio::test(start_paused = true)]
async fn lost_or_late_acquire_is_repeated_and_executed_once() {
    for (fault, world) in faults().into_iter().flat_map(|fault| World::both().map(|world| (fault, world))) {
        world.faulty.next(Op::Acquire, fault);
        let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
        let seen = world.locks.inspect(&name("x")).await.unwrap().stored.unwrap();
        assert_eq!(seen.depth, 1, "{fault:?}");
        assert!(
            world.another_process().named("x").unwrap().try_acquire().await.unwrap().is_none(),
            "{fault:?}"
        );
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released, "{fault:?}");
        // A delayed first attempt must not find the lock free and take it without a holder.
        tokio::time::sleep(secs(6)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn lost_or_late_renewal_does_not_lose_the_hold() {
    for (fault, world) in faults().into_iter().flat_map(|fault| World::both().map(|world| (fault, world))) {
        let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
        world.faulty.script(Op::Renew, [fault, fault]);
        tokio::time::sleep(secs(100)).await;
        assert!(guard.is_held(), "{fault:?}");
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released, "{fault:?}");
        tokio::time::sleep(secs(6)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn lost_or_late_release_is_repeated_and_never_misreported() {
    // A client that resends by itself and keeps the second answer would hide the first: the contract forbids it.
    let faults = faults().into_iter().filter(|fault| *fault != Fault::Twice(Kept::Second));
    for (fault, world) in faults.flat_map(|fault| World::both().map(|world| (fault, world))) {
        let begin = world.now();
        let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
        world.faulty.next(Op::Release, fault);
        match (fault, guard.release().await) {
            (Fault::ApplyThenLose | Fault::ApplyThenHang, Err(error)) => {
                assert_eq!(error.kind(), LockErrorKind::Unconfirmed, "{fault:?}");
            }
            (_, answer) => assert_eq!(answer.unwrap(), ReleaseOutcome::Released, "{fault:?}"),
        }
        let took = world.now() - begin;
        assert!(took <= secs(4), "{fault:?}: {took:?}");
        tokio::time::sleep(secs(6)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn release_after_a_forced_release_is_not_reported_held() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    // Forcibly released from another process, which this one has not noticed yet. Another process holds it.
    let other = world.another_process();
    other.force_release(&name("x")).await.unwrap();
    let usurper = other.named("x").unwrap().acquire().await.unwrap();
    tokio::time::advance(secs(5)).await;
    world.faulty.next(Op::Release, Fault::ApplyThenLose);
    assert_eq!(guard.release().await.unwrap_err().kind(), LockErrorKind::Unconfirmed);
    assert!(usurper.is_held());
}

#[tokio::test(start_paused = true)]
async fn run_returns_the_value_unless_the_store_reports_a_loss() {
    let run = async |fault: Option<Fault>| {
        let world = World::new();
        let (other, faulty) = (world.another_process(), world.faulty.clone());
        let work = async |_hold| {
            other.force_release(&name("x")).await.unwrap();
            if let Some(fault) = fault {
                faulty.next(Op::Release, fault);
            }
            other.named("x").unwrap().acquire().await.unwrap()
        };
        world.locks.named("x").unwrap().run(work).await
    };
    assert!(matches!(run(None).await, Err(RunError::Lost(LostReason::Gone))), "the store said so");
    assert!(
        run(Some(Fault::LoseRequest)).await.is_ok(),
        "it may have been freed by the request that was lost"
    );
}

#[tokio::test(start_paused = true)]
async fn late_release_does_not_free_the_next_holder() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let first = lock.acquire().await.unwrap();
    world.faulty.next(Op::Release, Fault::Late(secs(5)));
    assert_eq!(first.release().await.unwrap(), ReleaseOutcome::Released);
    let second = lock.acquire().await.unwrap();
    tokio::time::sleep(secs(8)).await;
    assert!(second.is_held());
    assert_eq!(second.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test(start_paused = true)]
async fn acquire_delivered_after_giving_up_leaves_no_orphan() {
    let late = [1, 500, 2_999, 3_000, 3_001, 5_000, 20_000];
    for (late_by, world) in late.into_iter().flat_map(|late| World::both().map(|world| (late, world))) {
        world.faulty.next(Op::Acquire, Fault::Late(millis(late_by)));
        let gave_up = world.locks.named("x").unwrap().acquire_timeout(millis(10)).await;
        assert!(gave_up.is_err());
        tokio::time::sleep(secs(3) + secs(6)).await;
        assert_eq!(world.store.held(), Vec::<LockName>::new(), "late by {late_by} ms");
        tokio::time::sleep(secs(20)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_release_is_reported_in_time_and_repeated_later() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    world.faulty.always(Op::Release, Fault::Hang);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), lock_core::LockErrorKind::Unconfirmed);
    assert!(error.is_ambiguous());
    assert!(world.now() <= secs(6) + millis(5), "two operation timeouts: {:?}", world.now());
    world.faulty.heal();
    tokio::time::sleep(secs(6)).await;
    world.assert_nothing_left();
}

/// Every hold that was ever granted, by any process.
#[derive(Debug, Default, Clone)]
struct Losses(Arc<Mutex<Vec<LostReason>>>);

impl LockObserver for Losses {
    fn on_event(&self, event: &LockEvent<'_>) {
        if let LockEventKind::Ended { end: HoldEnd::Lost(reason), .. } = &event.kind {
            self.0.lock().unwrap().push(*reason);
        }
    }
}

/// One random run of two processes on one store; all randomness comes from the seed.
struct Schedule {
    world: World,
    seed: Stream,
    processes: Vec<(LockFactory, FaultyBackend)>,
    losses: Losses,
    granted: Vec<Hold>,
    guards: Vec<LockGuard>,
}

impl Schedule {
    fn new(number: u64) -> Self {
        let world = World::new();
        let losses = Losses::default();
        let processes = (0..2u64).map(|process| {
            let faulty = FaultyBackend::new(world.store.clone());
            faulty.random(Seed::new(number * 2 + process), 0.25);
            let locks = LockFactory::builder(faulty.clone())
                .clock(world.clock.clone())
                .options(LockOptions::new().lease(secs(3)))
                .observer(losses.clone())
                .build()
                .unwrap();
            (locks, faulty)
        });
        let processes = processes.collect();
        Self {
            world,
            seed: Seed::new(number).stream(),
            processes,
            losses,
            granted: Vec::new(),
            guards: Vec::new(),
        }
    }

    fn check_exclusion(&self) {
        let valid: std::collections::BTreeSet<_> =
            self.granted.iter().filter(|hold| hold.is_held()).map(Hold::fencing_token).collect();
        assert!(valid.len() <= 1, "two valid holders: {valid:?}");
    }

    fn took(&mut self, guard: LockGuard) {
        if !guard.is_held() {
            return; // granted, and over before it was observed
        }
        let token = guard.fencing_token();
        if let Some(last) = self.granted.last().map(Hold::fencing_token) {
            let again = self.granted.iter().any(|hold| hold.fencing_token() == token && hold.is_held());
            assert!(token > last || again, "token {token:?} after {last:?}");
        }
        self.granted.push(guard.hold());
        self.guards.push(guard);
        self.check_exclusion();
    }

    async fn step(&mut self) {
        let process = usize::try_from(self.seed.below(2)).unwrap();
        let lock = self.processes[process].0.named("x").unwrap();
        let patience = millis(self.seed.below(4_000));
        match self.seed.below(6) {
            0 | 1 => {
                if let Ok(Ok(guard)) = tokio::time::timeout(patience, lock.acquire()).await {
                    self.took(guard);
                }
            }
            2 => {
                if let Ok(Some(guard)) = lock.try_acquire().await {
                    self.took(guard);
                }
            }
            3 => {
                if let Some(reentry) = self.guards.last().map(LockGuard::reenter)
                    && let Ok(Ok(guard)) = tokio::time::timeout(patience, reentry).await
                {
                    self.took(guard);
                }
            }
            4 => {
                if let Some(guard) = self.guards.pop() {
                    let was_held = guard.is_held();
                    let outcome = tokio::time::timeout(patience, guard.release()).await;
                    if let (true, Ok(Ok(ReleaseOutcome::HeldByOther))) = (was_held, &outcome) {
                        panic!("another held the lock under a valid hold");
                    }
                }
            }
            _ => drop(self.guards.pop()),
        }
        self.check_exclusion();
        tokio::time::sleep(millis(self.seed.below(700))).await;
        self.check_exclusion();
    }

    async fn drain(mut self) {
        for (_, faulty) in &self.processes {
            faulty.heal();
        }
        self.guards.clear();
        // Two operation timeouts of 300 ms; the lease would take 3 s.
        tokio::time::sleep(millis(620)).await;
        assert_eq!(self.world.store.held(), Vec::<LockName>::new(), "an orphan");
        tokio::time::sleep(secs(6)).await;
        assert_eq!(self.world.store.watched(), 0);
        for (locks, _) in &self.processes {
            assert_eq!(locks.active_locks(), 0);
        }
        let losses = self.losses.0.lock().unwrap();
        assert!(
            !losses.contains(&LostReason::Gone),
            "the store kept its data, so no lease was gone: {losses:?}"
        );
        // A hold expires by its deadline only if every renewal during two thirds of a lease failed.
        let expired = losses.len();
        assert!(expired <= self.granted.len());
    }
}

#[tokio::test(start_paused = true)]
async fn two_thousand_random_fault_schedules() {
    let mut grants = 0;
    for number in 0..2_000 {
        let run = async {
            let mut schedule = Schedule::new(number);
            for _ in 0..14 {
                schedule.step().await;
            }
            grants += schedule.granted.len();
            schedule.drain().await;
        };
        let failed = std::panic::AssertUnwindSafe(run);
        if let Err(panic) = futures_util::FutureExt::catch_unwind(failed).await {
            eprintln!("schedule number {number} fails; it repeats with `Schedule::new({number})`");
            std::panic::resume_unwind(panic);
        }
    }
    assert!(grants > 4_000, "only {grants} grants: the schedules do not reach the interesting places");
}

#[tokio::test(start_paused = true)]
async fn no_hold_is_lost_while_its_lease_is_safe() {
    // Every second renewal fails in some way; the lease is never at risk.
    for fault in [
        Fault::ApplyThenLose,
        Fault::LoseRequest,
        Fault::FailBefore(BackendErrorKind::Unavailable),
        Fault::ApplyThenHang,
    ] {
        let world = World::new();
        let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
        for _ in 0..40 {
            world.faulty.script(Op::Renew, [fault, Fault::None]);
        }
        for _ in 0..300 {
            tokio::time::sleep(secs(1)).await;
            assert!(guard.is_held(), "{fault:?} at {:?}", world.now());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn server_clock_can_be_off_by_an_hour() {
    for step in [3_600_000_000i64, -3_600_000_000] {
        let client = Arc::new(lock_core::clock::TestClock::new());
        let server = Arc::new(lock_core::clock::TestClock::new());
        server.step_wall(step);
        let store = lock_core::MemoryBackend::with_clock(server.clone());
        let locks = LockFactory::builder(store.clone()).clock(client.clone()).build().unwrap();
        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        tokio::time::sleep(secs(100)).await;
        assert!(guard.is_held());
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        assert_eq!(client.now().since(Moment::START), secs(100));
    }
}

#[tokio::test(start_paused = true)]
async fn stuck_reentry_does_not_keep_a_lost_lease_alive() {
    let world = World::new();
    let (memory, store) = (&world.store, &world.faulty);
    let lock = world.locks.named("x").unwrap().with_fixed_lease(secs(10)).unwrap(); // operation timeout 1 s
    let guard = lock.acquire().await.unwrap();
    tokio::time::sleep(millis(1_000)).await;
    store.next(Op::Acquire, Fault::Late(millis(8_000))); // a frozen proxy: executed at 9 s, `not_after` was 2 s
    store.always(Op::Release, Fault::FailBefore(BackendErrorKind::Unavailable));
    let _ = tokio::time::timeout(millis(500), guard.reenter()).await;
    // Until 12.5 s: the hold is lost at 9.9 s, and its undos fail until 12 s.
    tokio::time::sleep_until(tokio::time::Instant::now() + millis(11_000)).await;
    store.heal(); // the store works again
    tokio::time::sleep(millis(2_000)).await;
    drop(guard);
    assert_eq!(memory.held(), Vec::<LockName>::new());
}

/// The answer to a release that was sent in time arrives after the lease is over: the work under the lock was
/// protected, and must not be reported as unprotected.
#[tokio::test(start_paused = true)]
async fn release_overtaken_by_lease_expiry_is_unconfirmed_not_lost() {
    for fault in [Fault::Delay(millis(50)), Fault::FailBefore(BackendErrorKind::Unavailable)] {
        let world = World::new();
        let lock = world.locks.named("x").unwrap().with_fixed_lease(secs(1)).unwrap();
        let guard = lock.acquire().await.unwrap();
        tokio::time::sleep(millis(980)).await;
        assert!(guard.is_held(), "its deadline is at 0.988 s");
        world.faulty.next(Op::Release, fault);
        assert_eq!(guard.release().await.unwrap_err().kind(), LockErrorKind::Unconfirmed, "{fault:?}");

        world.faulty.next(Op::Release, fault);
        let done = lock.run(|_| tokio::time::sleep(millis(980))).await;
        assert!(done.is_ok(), "the result of work that ended in time is not thrown away: {done:?}");
    }
}
