//! Properties of how long holds last and how they end.

use super::{
    Harness,
    team::{KEPT, LEASE, SOON, Team, attempt, get, must_not_get, within},
};
use lock_core::{HoldEnd, LockErrorKind, LostReason, ReleaseOutcome, inspect::ForceReleaseOutcome};

/// The watchdog keeps a lease alive for several times its length.
pub async fn the_watchdog_keeps_a_lease_alive(h: &impl Harness) {
    let team = Team::with_kept_leases(h, "watchdog").await;
    let guard = get(&team.lock_a()).await;
    for _ in 0..6 {
        h.pass(KEPT / 2).await;
        assert!(guard.is_held(), "the watchdog must renew the lease");
        must_not_get(&team.lock_b()).await;
    }
    assert_eq!(guard.release().await.expect("release failed"), ReleaseOutcome::Released);
}

/// A fixed lease expires, the guard reports the loss, and the lock can be acquired again.
pub async fn a_fixed_lease_ends(h: &impl Harness) {
    let team = Team::new(h, "fixed").await;
    let guard = get(&team.lock_a().with_fixed_lease(LEASE).expect("valid lease")).await;
    assert!(guard.remaining() <= LEASE, "{:?} of {LEASE:?} remain", guard.remaining());
    let reason = within(h, LEASE + SOON, "a fixed lease expires", guard.lost()).await;
    assert_eq!(reason, LostReason::Expired);
    assert!(!guard.is_held());
    let next = within(h, SOON, "the next waiter acquires the lock", get(&team.lock_b())).await;
    assert!(next.fencing_token() > guard.fencing_token());
    assert_eq!(guard.release().await.expect("release failed"), ReleaseOutcome::AlreadyExpired);
    assert!(next.is_held(), "releasing a lost hold must not free another holder's lock");
    must_not_get(&team.lock_a()).await;
}

/// A hold ends in its process before the lease expires in the store.
pub async fn a_hold_ends_for_its_holder_first(h: &impl Harness) {
    let team = Team::new(h, "holder-first").await;
    let guard = get(&team.lock_a().with_fixed_lease(LEASE).expect("valid lease")).await;
    while attempt(&team.lock_b()).await.is_none() {
        h.pass(LEASE / 100).await;
    }
    assert!(!guard.is_held(), "two valid holders");
    assert!(guard.remaining().is_zero());
}

/// Dropping a guard frees the lock in the background.
pub async fn a_dropped_guard_frees_the_lock(h: &impl Harness) {
    let team = Team::new(h, "dropped-guard").await;
    let guard = get(&team.lock_a()).await;
    let hold = guard.hold();
    drop(guard);
    assert_eq!(within(h, SOON, "the hold ends", hold.ended()).await, HoldEnd::Released);
    assert!(!hold.is_held());
    team.must_become_free(h).await;
    assert!(attempt(&team.lock_b()).await.is_some(), "the lock must be free");
}

/// A lock with a minimum hold stays held for that time, even if it is released earlier.
pub async fn a_minimum_hold_outlasts_the_release(h: &impl Harness) {
    let team = Team::new(h, "min-hold").await;
    let lock = team.lock_a();
    let lock = lock.with_options(lock.options().min_hold(LEASE)).expect("valid options");
    let began = team.clock.now();
    let token = lock.run(async |hold| hold.fencing_token()).await.expect("failed to run under the lock");
    let next = within(h, SOON, "the lock becomes free before its lease expires", get(&team.lock_b())).await;
    let kept = team.clock.now().since(began);
    assert!(kept >= LEASE, "the lock was free after {kept:?}");
    assert!(next.fencing_token() > token);
}

/// If the minimum hold has not passed, a shutdown lets the lease expire instead of releasing it.
pub async fn a_minimum_hold_outlasts_a_shutdown(h: &impl Harness) {
    let team = Team::with_kept_leases(h, "min-hold-shutdown").await;
    let lock = team.lock_a();
    let lock = lock.with_options(lock.options().min_hold(KEPT)).expect("valid options");
    let began = team.clock.now();
    drop(get(&lock).await);
    let report = within(h, SOON, "the shutdown completes", team.a.shutdown()).await;
    assert!(report.is_clean(), "the shutdown was not clean: {report:?}");
    let _next = within(h, SOON, "the lease expires", get(&team.lock_b())).await;
    let kept = team.clock.now().since(began);
    // A store may round the expiry of a lease.
    assert!(kept + KEPT / 100 >= KEPT, "the lock was free after {kept:?}");
}

/// Aborting a task frees the lock it holds, as a panic does.
pub async fn an_aborted_task_frees_the_lock(h: &impl Harness) {
    let team = Team::new(h, "aborted").await;
    let lock = team.lock_a();
    let (sender, held) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let _guard = get(&lock).await;
        let _ = sender.send(());
        std::future::pending::<()>().await;
    });
    held.await.expect("the task ended before it acquired the lock");
    must_not_get(&team.lock_b()).await;
    task.abort();
    team.must_become_free(h).await;
}

/// After a forced release, the holder detects the loss at its next renewal. Its own release does
/// not free the next holder's lock.
pub async fn a_forced_release_ends_the_hold(h: &impl Harness) {
    let team = Team::with_kept_leases(h, "forced-out").await;
    let guard = get(&team.lock_a()).await;
    let forced = team.b.force_release(&team.name).await.expect("forced release failed");
    assert_eq!(forced, ForceReleaseOutcome::Released { lease: guard.hold().lease_id().to_string() });
    let next = get(&team.lock_b()).await;
    let reason = within(h, SOON, "a holder whose lock was forcibly released is notified", guard.lost()).await;
    assert_eq!(
        reason,
        LostReason::Gone,
        "the loss must be detected by a renewal, before the lease would have expired"
    );
    assert_eq!(guard.release().await.expect("release failed"), ReleaseOutcome::AlreadyExpired);
    assert!(next.is_held());
    must_not_get(&team.lock_a()).await;
}

/// A forced release of a free lock changes nothing and returns `NotHeld`.
pub async fn forcing_a_free_lock_says_not_held(h: &impl Harness) {
    let team = Team::new(h, "force-free").await;
    let forced = team.b.force_release(&team.name).await.expect("forced release failed");
    assert_eq!(forced, ForceReleaseOutcome::NotHeld);
}

/// A shutdown releases all the factory's locks, ends its holds, and rejects further acquires.
pub async fn a_shutdown_releases_what_is_held(h: &impl Harness) {
    let team = Team::new(h, "shutdown").await;
    let guard = get(&team.lock_a()).await;
    let report = within(h, SOON * 3, "the shutdown completes", team.a.shutdown()).await;
    assert!(report.is_clean(), "the release was not confirmed: {report:?}");
    assert!(!guard.is_held());
    assert_eq!(guard.lost().await, LostReason::ShutDown);
    let next = attempt(&team.lock_b()).await;
    assert!(next.is_some(), "the lock must be free");
    let error = team.lock_a().acquire().await.expect_err("the factory is shut down");
    assert_eq!(error.kind(), LockErrorKind::ShutDown);
    drop(guard);
    assert!(
        next.is_some_and(|next| next.is_held()),
        "a guard from before the shutdown must not free another holder's lock"
    );
}
