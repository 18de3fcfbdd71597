//! Release properties. A lock is freed by its own lease, or by a forced release of an observed
//! holder.

use super::{
    Harness,
    contender::{Contender, LONG, PAST_SHORT, SHORT, must_be_free},
};
use lock_core::{
    LockName,
    backend::{Backend, ForceReleaseRequest, ForceReleased, Released, Renewed},
};
use std::sync::Arc;

const GONE: Released = Released::Gone { held_by_other: false };
const TAKEN: Released = Released::Gone { held_by_other: true };

async fn force(backend: &Arc<dyn Backend>, name: &LockName, seen: &str) -> ForceReleased {
    let request = ForceReleaseRequest { name: name.clone(), seen: seen.to_owned() };
    backend.force_release(request).await.expect("forced release failed on a healthy store").outcome
}

/// A released lock can be acquired.
pub async fn a_released_lock_is_free_for_the_next(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("next"));
    let (a, b) = (Contender::new(&store.backend), Contender::new(&h.another(&store).await.backend));
    a.take(&name, LONG).await;
    a.free(&name).await;
    must_be_free(&store.backend, &name).await;
    b.take(&name, LONG).await;
    b.must_hold(&name, 1).await;
}

/// A release repeated after a lost reply returns `Gone`.
pub async fn a_repeated_release_says_gone(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("release-twice"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    a.free(&name).await;
    assert_eq!(a.release(&name, 0).await, GONE);
}

/// A repeated release does not affect the next holder.
pub async fn a_repeated_release_leaves_the_next_holder_alone(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("release-after-next"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, LONG).await;
    a.free(&name).await;
    b.take(&name, LONG).await;
    assert_eq!(a.release(&name, 0).await, TAKEN);
    b.must_hold(&name, 1).await;
}

/// Releasing a lock that was never taken returns `Gone` and writes nothing.
pub async fn releasing_what_was_never_taken_says_gone(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("never-taken"));
    for depth_left in [0, 1] {
        assert_eq!(Contender::new(&backend).release(&name, depth_left).await, GONE);
        must_be_free(&backend, &name).await;
    }
}

/// A release of another lease's lock, whatever depth it leaves, reports the other holder and does not
/// touch the lock.
pub async fn a_release_never_touches_anothers_lease(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("release-other"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, LONG).await;
    for depth_left in [0, 1, 2] {
        assert_eq!(b.release(&name, depth_left).await, TAKEN);
    }
    a.must_last(&name, 1, LONG).await;
}

/// A release after the lease has expired returns `Gone`, and does not free the next holder's lock.
pub async fn a_release_after_the_end_leaves_the_next_holder_alone(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("release-late"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, SHORT).await;
    h.pass(PAST_SHORT).await;
    assert_eq!(a.release(&name, 0).await, GONE);
    b.take(&name, LONG).await;
    assert_eq!(a.release(&name, 0).await, TAKEN);
    b.must_hold(&name, 1).await;
}

/// A release that leaves a depth above 0 keeps the lease and its expiry. The last release frees the
/// lock.
pub async fn a_release_to_a_depth_keeps_the_lease(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("kept"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    a.keep(&name, 3, LONG).await;
    for depth_left in [2, 2, 1] {
        assert_eq!(a.release(&name, depth_left).await, Released::Kept);
        a.must_last(&name, depth_left, LONG).await;
    }
    a.free(&name).await;
    must_be_free(&backend, &name).await;
}

/// A forced release frees the observed holder's lock at any depth. The holder's lease is then gone.
pub async fn a_forced_release_frees_the_holder_that_was_seen(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("force"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, LONG).await;
    a.keep(&name, 2, LONG).await;
    let seen = a.must_hold(&name, 2).await.lease;
    assert_eq!(force(&backend, &name, &seen).await, ForceReleased::Released);
    must_be_free(&backend, &name).await;
    assert_eq!(a.renew(&name, LONG).await, Renewed::Gone);
    assert_eq!(a.release(&name, 0).await, GONE);
    b.take(&name, LONG).await;
}

/// A forced release repeated after a lost reply does not free the next holder's lock.
pub async fn a_repeated_forced_release_leaves_the_next_holder_alone(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("force-twice"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, LONG).await;
    let seen = a.lease().to_string();
    assert_eq!(force(&backend, &name, &seen).await, ForceReleased::Released);
    assert_eq!(
        force(&backend, &name, &seen).await,
        ForceReleased::HolderChanged,
        "the lock is no longer held"
    );
    b.take(&name, LONG).await;
    assert_eq!(
        force(&backend, &name, &seen).await,
        ForceReleased::HolderChanged,
        "another lease holds the lock"
    );
    b.must_last(&name, 1, LONG).await;
}

/// A forced release of a free lock, or of a holder that never existed, changes nothing.
pub async fn a_forced_release_of_nobody_changes_nothing(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("force-nobody"));
    for seen in ["", "somebody", "67e55044-10b1-426f-9247-bb680e5fe0c8:4"] {
        assert_eq!(force(&backend, &name, seen).await, ForceReleased::HolderChanged);
    }
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    for seen in ["", "somebody", "67e55044-10b1-426f-9247-bb680e5fe0c8:4"] {
        assert_eq!(force(&backend, &name, seen).await, ForceReleased::HolderChanged);
    }
    a.must_hold(&name, 1).await;
}
