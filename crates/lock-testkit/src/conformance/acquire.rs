//! Acquire properties. One lease at a time holds a lock, repeats have no further effect, and
//! re-entries need an existing lease.

use super::{
    Harness,
    contender::{Contender, LONG, held, must_be_busy, must_be_free},
};
use lock_core::backend::{Acquired, ProcessId};

/// A free lock is granted, and the requesting lease is stored at depth 1.
pub async fn a_free_lock_is_granted(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("free"));
    must_be_free(&backend, &name).await;
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    a.must_last(&name, 1, LONG).await;
}

/// An acquire of a held lock returns `Busy` with the remaining time.
pub async fn a_taken_lock_is_busy_and_says_for_how_long(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("busy"));
    Contender::new(&store.backend).take(&name, LONG).await;
    let other = h.another(&store).await.backend;
    match Contender::new(&other).acquire(&name, LONG).await {
        Acquired::Busy { remaining, .. } => {
            if let Some(remaining) = remaining.filter(|_| !h.wakes_by_deleting()) {
                assert!(remaining <= LONG, "more than {LONG:?} left: {remaining:?}");
                assert!(remaining > LONG / 2, "less than half of {LONG:?} left: {remaining:?}");
            }
        }
        other => panic!("expected `Busy` for a held lock, got {other:?}"),
    }
}

/// An acquire of a held lock does not change its holder, depth or expiry.
pub async fn a_busy_answer_writes_nothing(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("busy-writes-nothing"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, LONG).await;
    must_be_busy(&b.acquire(&name, LONG * 100).await);
    a.must_last(&name, 1, LONG).await;
    a.free(&name).await;
    must_be_free(&backend, &name).await;
}

/// The store treats two leases of one process as unrelated.
pub async fn two_leases_of_one_process_exclude_one_another(h: &impl Harness) {
    let (backend, name, process) = (h.store().await.backend, h.name("one-process"), ProcessId::random());
    let (a, b) = (Contender::of(&backend, process), Contender::of(&backend, process));
    a.take(&name, LONG).await;
    must_be_busy(&b.acquire(&name, LONG).await);
    a.must_hold(&name, 1).await;
}

/// A lease is identified by name and id. The same id can hold two locks and release them
/// separately.
pub async fn one_lease_id_on_two_names_is_two_leases(h: &impl Harness) {
    let (backend, x, y) = (h.store().await.backend, h.name("x"), h.name("y"));
    let a = Contender::new(&backend);
    a.take(&x, LONG).await;
    a.take(&y, LONG).await;
    a.free(&x).await;
    must_be_free(&backend, &x).await;
    a.must_hold(&y, 1).await;
}

/// An acquire repeated after a lost reply belongs to the same hold, so one release frees the lock.
pub async fn a_repeated_acquire_is_freed_by_one_release(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("repeat"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    a.take(&name, LONG).await;
    a.must_hold(&name, 1).await;
    a.free(&name).await;
    must_be_free(&backend, &name).await;
}

/// An acquire repeated after a re-entry does not reduce the depth.
pub async fn a_repeated_acquire_keeps_the_depth(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("repeat-depth"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    assert_eq!(a.keep(&name, 3, LONG).await, Acquired::Reentered);
    a.take(&name, LONG).await;
    a.must_hold(&name, 3).await;
}

/// A repeated acquire with a longer duration extends the lease.
pub async fn a_repeated_acquire_raises_the_expiry(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("repeat-raises"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    a.take(&name, LONG * 3).await;
    a.must_last(&name, 1, LONG * 3).await;
}

/// Depths are absolute, so a re-entry that is sent twice counts once.
pub async fn a_re_entry_sets_the_absolute_depth(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("depth"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    for depth in [2, 2, 5, 3] {
        assert_eq!(a.keep(&name, depth, LONG).await, Acquired::Reentered);
        a.must_hold(&name, depth).await;
    }
}

/// A re-entry with a longer duration extends the lease.
pub async fn a_re_entry_raises_the_expiry(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("re-entry-raises"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    assert_eq!(a.keep(&name, 2, LONG * 3).await, Acquired::Reentered);
    a.must_last(&name, 2, LONG * 3).await;
}

/// A re-entry that arrives before its acquire or after the release returns `Gone` and creates no
/// key.
pub async fn a_re_entry_of_a_gone_lease_creates_nothing(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("re-entry-gone"));
    let a = Contender::new(&backend);
    assert_eq!(a.keep(&name, 2, LONG).await, Acquired::Gone, "the lease never existed");
    must_be_free(&backend, &name).await;
    a.take(&name, LONG).await;
    a.free(&name).await;
    assert_eq!(a.keep(&name, 2, LONG).await, Acquired::Gone, "the lease was released");
    must_be_free(&backend, &name).await;
}

/// A re-entry into another lease returns `Gone` and does not change that lease.
pub async fn a_re_entry_does_not_touch_anothers_lease(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("re-entry-other"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, LONG).await;
    let before = held(&backend, &name).await.map(|hold| (hold.lease, hold.depth));
    assert_eq!(b.keep(&name, 7, LONG * 2).await, Acquired::Gone);
    assert_eq!(held(&backend, &name).await.map(|hold| (hold.lease, hold.depth)), before);
    a.must_last(&name, 1, LONG).await;
}
