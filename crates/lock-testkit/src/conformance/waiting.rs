//! Waiter properties. Waiters are woken by releases and expiries, keep their order, and leave
//! nothing behind when dropped.

use super::{
    Harness,
    team::{LEASE, SOON, Team, get, must_not_get, queue_up, within},
};
use lock_core::LockErrorKind;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::task::JoinSet;

/// A waiter gets the lock when another process releases it, long before the lease expires.
pub async fn a_waiter_is_woken_by_a_release_elsewhere(h: &impl Harness) {
    let team = Team::new(h, "woken").await;
    let guard = get(&team.lock_a()).await;
    let waiter = queue_up(h, &team.b, &team.lock_b()).await;
    h.pass(Duration::from_millis(100)).await;
    assert!(!waiter.is_finished(), "the waiter must wait while the lock is held");
    let before = guard.fencing_token();
    guard.release().await.expect("release failed");
    let next = team.must_be_woken(h, waiter).await;
    assert!(next.fencing_token() > before);
}

/// A waiter gets the lock once the lease of an unresponsive holder has expired.
pub async fn a_waiter_gets_the_lock_when_the_lease_ends(h: &impl Harness) {
    let team = Team::new(h, "lease-ends").await;
    let lost = get(&team.lock_a().with_fixed_lease(LEASE).expect("valid lease")).await;
    let next = within(h, LEASE + SOON, "the waiter gets the lock", get(&team.lock_b())).await;
    assert!(!lost.is_held(), "two valid holders");
    assert!(next.fencing_token() > lost.fencing_token());
}

/// A dropped waiter leaves neither a lease nor a place in the queue behind.
pub async fn a_dropped_waiter_leaves_nothing(h: &impl Harness) {
    let team = Team::new(h, "dropped-waiter").await;
    let guard = get(&team.lock_a()).await;
    let waiter = queue_up(h, &team.b, &team.lock_b()).await;
    waiter.abort();
    assert!(waiter.await.is_err(), "the waiter must be cancelled");
    guard.release().await.expect("release failed");
    h.pass(Duration::from_millis(100)).await;
    // The waiter's pending attempt may still be granted. The lock is then released.
    team.must_become_free(h).await;
    let forgotten = async {
        while team.b.active_locks() > 0 {
            h.pass(Duration::from_millis(50)).await;
        }
    };
    within(h, SOON, "the factory drops the lock's entry", forgotten).await;
}

/// A dropped waiter does not block those behind it.
pub async fn a_dropped_waiter_lets_others_pass(h: &impl Harness) {
    let team = Team::new(h, "others-pass").await;
    let guard = get(&team.lock_a()).await;
    let first = queue_up(h, &team.b, &team.lock_b()).await;
    let second = queue_up(h, &team.b, &team.lock_b()).await;
    first.abort();
    guard.release().await.expect("release failed");
    drop(team.must_be_woken(h, second).await);
}

/// Waiters in one process are served in order of arrival.
pub async fn waiters_of_one_process_keep_their_order(h: &impl Harness) {
    let team = Team::new(h, "order").await;
    let guard = get(&team.lock_a()).await;
    let mut queue = Vec::new();
    for _ in 0..4 {
        queue.push(queue_up(h, &team.a, &team.lock_a()).await);
    }
    let mut last = guard.fencing_token();
    guard.release().await.expect("release failed");
    for waiter in queue {
        let turn = within(h, SOON, "the next waiter acquires the lock", waiter).await;
        let next = turn.expect("the waiter panicked").expect("the waiter failed to acquire the lock");
        assert!(next.fencing_token() > last, "{:?} must be greater than {last:?}", next.fencing_token());
        last = next.fencing_token();
        next.release().await.expect("release failed");
    }
}

/// A `try_acquire` never overtakes a waiter in its process.
pub async fn a_try_does_not_overtake_a_waiter(h: &impl Harness) {
    let team = Team::new(h, "no-overtaking").await;
    let guard = get(&team.lock_a()).await;
    let waiter = queue_up(h, &team.b, &team.lock_b()).await;
    must_not_get(&team.lock_b()).await;
    guard.release().await.expect("release failed");
    let next = team.must_be_woken(h, waiter).await;
    must_not_get(&team.lock_b()).await;
    drop(next);
}

/// A process with a long queue does not starve other processes, which get the lock before that queue
/// is empty. Stores that cannot push skip this check.
pub async fn a_busy_process_lets_others_have_a_turn(h: &impl Harness) {
    let team = Team::new(h, "turns").await;
    if team.pushes() {
        others_have_turns(h, &team, 2_000).await;
    }
}

/// The same for a store that cannot push: a busy process pauses for as long as others need to poll.
/// Stores that push skip this check.
pub async fn a_busy_process_pauses_for_others_that_poll(h: &impl Harness) {
    let team = Team::new(h, "polled-turns").await;
    if !team.pushes() {
        others_have_turns(h, &team, 2_000).await;
    }
}

/// Lets four tasks of one process acquire the lock repeatedly. Panics if more than `most` of their holds precede a turn
/// of the other process.
async fn others_have_turns(h: &impl Harness, team: &Team, most: usize) {
    let held = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (lock, held) = (team.lock_a(), held.clone());
        tasks.spawn(async move {
            loop {
                let guard = get(&lock).await;
                held.fetch_add(1, SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                guard.release().await.expect("release failed");
            }
        });
    }
    h.pass(Duration::from_millis(50)).await;
    let lock = team.lock_b();
    for _ in 0..3 {
        let before = held.load(SeqCst);
        let too_many = async {
            while held.load(SeqCst) - before <= most {
                h.pass(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            biased;
            turn = get(&lock) => drop(turn.release().await.expect("release failed")),
            () = too_many => panic!("the other process waits while the busy one held the lock {most} times"),
        }
    }
}

/// A shutdown ends every wait in its factory.
pub async fn a_shutdown_ends_every_wait(h: &impl Harness) {
    let team = Team::new(h, "shutdown-waits").await;
    let _guard = get(&team.lock_a()).await;
    let waiter = queue_up(h, &team.b, &team.lock_b()).await;
    let report = within(h, SOON * 3, "the shutdown completes", team.b.shutdown()).await;
    assert!(report.is_clean(), "the shutdown was not clean: {report:?}");
    let ended = within(h, SOON, "the wait ends", waiter).await.expect("the waiter panicked");
    assert_eq!(ended.expect_err("the factory is shut down").kind(), LockErrorKind::ShutDown);
}
