//! The life of a hold in virtual time.

use crate::support::{World, millis, name, secs};
use lock_core::{
    HoldEnd, LockFactory, LockOptions, LostReason, ReleaseOutcome,
    backend::BackendErrorKind,
    clock::{Clock, Moment, TestClock, UtcTime},
};
use lock_testkit::{Fault, Op};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

#[tokio::test(start_paused = true)]
async fn watchdog_renews_at_a_third_of_the_lease_indefinitely() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(millis(9_990)).await;
    assert_eq!(world.faulty.calls(Op::Renew), 0);
    tokio::time::sleep(millis(20)).await;
    assert_eq!(world.faulty.calls(Op::Renew), 1);
    tokio::time::sleep(secs(290)).await;
    assert_eq!(world.faulty.calls(Op::Renew), 30);
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn hold_on_a_hanging_backend_is_lost_at_the_deadline_counted_from_sending() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    // The renewal of second 10 is executed, and its answer takes two seconds. After it nothing answers.
    world.faulty.next(Op::Renew, Fault::SlowAnswer(secs(2)));
    tokio::time::sleep(secs(13)).await;
    world.faulty.always(Op::Renew, Fault::Hang);
    world.faulty.always(Op::Release, Fault::Hang);
    let retried_from = world.faulty.calls(Op::Renew);

    let first = guard.lost();
    let second = guard.hold().ended();
    assert_eq!(first.await, LostReason::Expired);
    let at = world.now();
    assert!(at >= millis(39_698) && at <= millis(39_702), "lost at {at:?}: second 10 + 30 s − 302 ms");
    assert!(!guard.is_held());
    assert_eq!(second.await, HoldEnd::Lost(LostReason::Expired));
    assert!(world.faulty.calls(Op::Renew) - retried_from >= 4, "suspicion retries before it gives up");
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
    assert_eq!(world.now(), at, "a release of a lost hold answers at once");
}

#[tokio::test(start_paused = true)]
async fn failed_renewal_is_retried_quickly_and_the_hold_survives() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    world.faulty.always(Op::Renew, Fault::FailBefore(BackendErrorKind::Unavailable));
    tokio::time::sleep(secs(25)).await;
    assert!(guard.is_held(), "unknown is not lost");
    let view = world.locks.inspect(&name("x")).await.unwrap().local.unwrap();
    assert!(view.suspect && view.remaining < secs(5));
    world.faulty.heal();
    tokio::time::sleep(secs(3)).await;
    assert!(guard.remaining() > secs(25), "the first success makes it whole: {:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn gone_is_lost_immediately() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(secs(3)).await;
    world.store.clear(); // also reports it: the hold is verified before it is relied on
    assert_eq!(guard.lost().await, LostReason::Gone);
    assert!(world.now() <= secs(3) + millis(1), "by the next tick of the timer: {:?}", world.now());
}

#[tokio::test(start_paused = true)]
async fn wall_clock_step_of_an_hour_loses_nothing() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(millis(1_500)).await;
    world.clock.step_wall(3_600_000_000);
    tokio::time::sleep(millis(1_500)).await;
    assert_eq!(world.faulty.calls(Op::Renew), 1, "the suspicion renews at once");
    world.clock.step_wall(-7_200_000_000);
    tokio::time::sleep(secs(120)).await;
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test(start_paused = true)]
async fn process_paused_past_its_lease_sees_the_loss_first() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap().with_fixed_lease(secs(1)).unwrap();
    let guard = lock.acquire().await.unwrap();
    // No task of this process runs while time passes, as during a pause.
    world.faulty.always(Op::Release, Fault::Hang);
    tokio::time::advance(millis(988)).await;
    assert!(!guard.is_held(), "the clock is compared, whether or not a timer fired");
    assert_eq!(guard.remaining(), secs(0));
    let before = world.now();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
    assert_eq!(world.now(), before);
}

#[tokio::test(start_paused = true)]
async fn fixed_lease_expires_and_the_next_waiter_proceeds() {
    let world = World::new();
    let fixed = world.locks.named("x").unwrap().with_fixed_lease(secs(2)).unwrap();
    let guard = fixed.acquire().await.unwrap();
    let other = world.another_process();
    let next = other.named("x").unwrap().acquire().await.unwrap();
    assert!(world.now() < secs(3), "the next waiter within lease + 1 s, here {:?}", world.now());
    assert!(!guard.is_held() && next.is_held());
    assert!(next.fencing_token() > guard.fencing_token());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
}

#[tokio::test(start_paused = true)]
async fn work_that_outlives_its_lock_is_dropped_without_a_value() {
    let world = World::with(LockOptions::new().lease(secs(3)));
    let lock = world.locks.named("x").unwrap();
    assert_eq!(lock.run(|_| async { 7 }).await.unwrap(), 7);

    world.faulty.always(Op::Renew, Fault::Hang);
    let ran = lock.run(|_| tokio::time::sleep(secs(10))).await;
    assert!(matches!(ran, Err(lock_core::RunError::Lost(LostReason::Expired))), "{ran:?}");
    assert!(world.now() < secs(4));

    // Forcibly released while the work ran: the store reports it at the release, and the value is not trusted.
    world.faulty.heal();
    let other = world.another_process();
    let ran = lock
        .run(|_| async {
            other.force_release(&name("x")).await.unwrap();
            7
        })
        .await;
    assert!(matches!(ran, Err(lock_core::RunError::Lost(LostReason::Gone))), "{ran:?}");
}

#[tokio::test(start_paused = true)]
async fn work_for_one_process_is_done_by_one() {
    let world = World::new();
    let (mine, theirs) = (world.locks.named("x").unwrap(), world.another_process().named("x").unwrap());
    let (a, b) = tokio::join!(
        mine.try_run(|_| tokio::time::sleep(secs(1))),
        theirs.try_run(|_| tokio::time::sleep(secs(1))),
    );
    assert_eq!([a.unwrap(), b.unwrap()], [Some(()), None]);
    assert_eq!(theirs.try_run(|hold| async move { hold.is_held() }).await.unwrap(), Some(true));
}

/// Two clocks are never read at the same instant.
#[derive(Debug)]
struct Noisy(Arc<TestClock>, AtomicU64);

impl Clock for Noisy {
    fn now(&self) -> Moment {
        self.0.now()
    }

    fn wall(&self) -> UtcTime {
        let noise = self.1.fetch_add(7, Ordering::SeqCst) % 50;
        self.0.wall() + Duration::from_micros(noise)
    }
}

#[tokio::test(start_paused = true)]
async fn noise_between_two_clocks_is_not_a_suspension() {
    let world = World::new();
    let options = LockOptions::new().margin(Duration::ZERO);
    let clock = Arc::new(Noisy(world.clock.clone(), AtomicU64::new(0)));
    let locks = LockFactory::builder(world.faulty.clone()).clock(clock).options(options).build().unwrap();
    let _guard = locks.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(secs(9)).await;
    assert_eq!(world.faulty.calls(Op::Renew), 0, "no renewal is due before 10 s");
}

/// A hypervisor stops a machine: its clocks stand still, while those of the store and of other machines continue.
#[tokio::test(start_paused = true)]
async fn stopped_guest_notices_its_loss_once_its_wall_clock_is_set() {
    let (elsewhere, store, clock) = LockFactory::paused();
    let of_guest = Arc::new(TestClock::new());
    let guest = LockFactory::builder(store).clock(of_guest.clone()).build().unwrap();
    let held = guest.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(millis(1_500)).await;

    let pause = Duration::from_secs(60);
    clock.suspend(pause);
    let other = elsewhere.named("x").unwrap().acquire().await.unwrap();
    assert!(held.is_held(), "the guest's clocks have not moved");
    assert!(other.fencing_token() > held.fencing_token(), "a resource refuses the guest");

    of_guest.step_wall(i64::try_from(pause.as_micros()).unwrap());
    let lost = tokio::time::timeout(Duration::from_secs(2), held.lost()).await;
    assert_eq!(lost, Ok(LostReason::Gone));
}
