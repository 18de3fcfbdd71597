//! Locking properties: exclusion across processes, increasing tokens, and re-entry by the owner
//! only.

use super::{
    Harness,
    team::{Team, attempt, get, must_not_get, named, within},
};
use crate::history::History;
use lock_core::{LockErrorKind, ReleaseOutcome};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::task::JoinSet;

/// Two factories exclude each other, as two processes do.
pub async fn two_factories_exclude_one_another(h: &impl Harness) {
    let team = Team::new(h, "two-factories").await;
    let guard = get(&team.lock_a()).await;
    must_not_get(&team.lock_b()).await;
    assert!(guard.is_held());
    assert_eq!(guard.release().await.expect("release failed"), ReleaseOutcome::Released);
    let guard = get(&team.lock_b()).await;
    must_not_get(&team.lock_a()).await;
    drop(guard);
}

/// Two acquires from one factory exclude each other, even through the same handle.
pub async fn two_acquires_of_one_factory_exclude_one_another(h: &impl Harness) {
    let team = Team::new(h, "one-factory").await;
    let lock = team.lock_a();
    let guard = get(&lock).await;
    must_not_get(&lock).await;
    must_not_get(&team.lock_a()).await;
    guard.release().await.expect("release failed");
    assert!(attempt(&lock).await.is_some(), "the lock must be free");
}

/// Locks with different names are independent.
pub async fn locks_of_different_names_are_independent(h: &impl Harness) {
    let team = Team::new(h, "one").await;
    let other = h.name("other");
    let (_one, _two) = (get(&team.lock_a()).await, get(&named(&team.a, &other)).await);
    must_not_get(&team.lock_b()).await;
    must_not_get(&named(&team.b, &other)).await;
}

/// A wait that times out fails with a distinct error kind and leaves nothing behind.
pub async fn a_wait_that_passes_times_out(h: &impl Harness) {
    let team = Team::new(h, "timeout").await;
    let guard = get(&team.lock_a()).await;
    let error =
        team.lock_b().acquire_timeout(Duration::from_millis(200)).await.expect_err("the lock is held");
    assert_eq!(error.kind(), LockErrorKind::Timeout);
    assert!(error.is_retryable(), "a timeout must be retryable");
    guard.release().await.expect("release failed");
    h.pass(Duration::from_millis(100)).await;
    // The waiter's pending attempt may still be granted. The lock is then released.
    team.must_become_free(h).await;
}

/// A later holder has a greater token, whichever process it is in.
pub async fn tokens_grow_over_factories(h: &impl Harness) {
    let team = Team::new(h, "tokens").await;
    let mut last = 0;
    for round in 0..10 {
        let lock = if round % 2 == 0 { team.lock_a() } else { team.lock_b() };
        let guard = get(&lock).await;
        let token = guard.fencing_token().get();
        assert!(token > last, "{token} must be greater than {last}");
        last = token;
        guard.release().await.expect("release failed");
    }
}

/// An owner re-enters its own hold with the same token. Each acquire needs a release, and the store
/// records the depth.
pub async fn an_owner_re_enters_what_it_holds(h: &impl Harness) {
    let team = Team::new(h, "owner").await;
    let me = team.a.owner();
    let mine = team.lock_a().with_owner(&me).expect("the owner belongs to this factory");
    let (outer, inner) = (get(&mine).await, get(&mine).await);
    assert_eq!(outer.fencing_token(), inner.fencing_token());
    assert_eq!(team.stored().await.map(|hold| hold.depth), Some(2));
    must_not_get(&team.lock_a()).await;
    let first = inner.release().await.expect("release failed");
    assert_eq!(first, ReleaseOutcome::StillHeld { depth: 1 });
    must_not_get(&team.lock_b()).await;
    assert!(outer.is_held());
    assert_eq!(outer.release().await.expect("release failed"), ReleaseOutcome::Released);
    assert!(attempt(&team.lock_b()).await.is_some(), "the lock must be free");
}

/// A guard re-enters its own hold, which lasts until all guards are released, in any order.
pub async fn a_guard_re_enters_its_hold(h: &impl Harness) {
    let team = Team::new(h, "reenter").await;
    let outer = get(&team.lock_a()).await;
    let inner = outer.reenter().await.expect("re-entry failed");
    assert_eq!(outer.fencing_token(), inner.fencing_token());
    let first = outer.release().await.expect("release failed");
    assert_eq!(first, ReleaseOutcome::StillHeld { depth: 1 });
    assert!(inner.is_held());
    must_not_get(&team.lock_b()).await;
    drop(inner);
    team.must_become_free(h).await;
}

/// An owner is not valid in another factory.
pub async fn owner_of_another_factory_is_refused(h: &impl Harness) {
    let team = Team::new(h, "foreign").await;
    let error = team.lock_b().with_owner(&team.a.owner()).expect_err("the owner belongs to another factory");
    assert_eq!(error.kind(), LockErrorKind::ForeignOwner);
}

/// Many contending tasks in two processes never hold the lock at the same time, tokens increase,
/// and every task gets the lock.
pub async fn many_contenders_are_never_two_holders(h: &impl Harness) {
    const TASKS: usize = 4;
    const ROUNDS: usize = 5;
    let team = Team::new(h, "many").await;
    let (history, inside) = (Arc::new(History::new()), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for factory in [&team.a, &team.b] {
        for _ in 0..TASKS {
            let (lock, clock) = (named(factory, &team.name), team.clock.clone());
            let (history, inside) = (history.clone(), inside.clone());
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let guard = get(&lock).await;
                    let now = clock.now();
                    let key =
                        history.granted(lock.name(), guard.fencing_token(), now, now + guard.remaining());
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "two holders are in the critical section");
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    inside.fetch_sub(1, SeqCst);
                    history.ended(key, clock.now());
                    guard.release().await.expect("release failed");
                }
            });
        }
    }
    let all = async {
        while let Some(finished) = tasks.join_next().await {
            finished.expect("a contender panicked");
        }
    };
    within(h, Duration::from_secs(60), "every contender gets the lock", all).await;
    assert_eq!(history.windows().len(), 2 * TASKS * ROUNDS);
    history.assert_clean();
    assert_eq!(team.stored().await, None, "the lock must be released");
}

/// An inspection shows the holder, in the store and in this process.
pub async fn an_inspection_shows_the_holder(h: &impl Harness) {
    let team = Team::new(h, "inspection").await;
    let guard = get(&team.lock_a()).await;
    let seen = team.inspect().await;
    let stored = seen.stored.expect("expected a holder in the store");
    assert_eq!((stored.lease, stored.depth), (guard.hold().lease_id().to_string(), 1));
    let local = seen.local.expect("expected a hold in this process");
    assert_eq!((local.token, local.depth), (guard.fencing_token(), 1));
    let seen = team.b.inspect(&team.name).await.expect("inspection failed");
    assert!(seen.stored.is_some(), "the other process must see the holder");
    assert!(seen.local.is_none(), "the other process must not hold the lock");
}
