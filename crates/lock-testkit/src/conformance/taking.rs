//! Acquires: one lease at a time, once for any number of repeats, and re-entries only while the lease exists.

use super::{
    Harness,
    contender::{Contender, LONG, held, must_be_busy, must_be_free},
};
use lock_core::backend::{Acquired, ProcessId};

/// A free lock is granted, and stored with the requesting lease at depth 1.
pub async fn a_free_lock_is_granted(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("free"));
    must_be_free(&backend, &name).await;
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    a.must_last(&name, 1, LONG).await;
}

/// Another lease gets `Busy` with the remaining time.
pub async fn a_taken_lock_is_busy_and_says_for_how_long(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("busy"));
    Contender::new(&store.backend).take(&name, LONG).await;
    let other = h.another(&store).await.backend;
    match Contender::new(&other).acquire(&name, LONG).await {
        Acquired::Busy { remaining, .. } => {
            if let Some(remaining) = remaining {
                assert!(remaining <= LONG, "the lease has at most {LONG:?} left, not {remaining:?}");
                assert!(remaining > LONG / 2, "the lease has about {LONG:?} left, not {remaining:?}");
            }
        }
        other => panic!("acquiring a taken lock is answered with busy, not {other:?}"),
    }
}

/// A request for a taken lock changes neither its holder, nor its depth, nor its expiry.
pub async fn a_busy_answer_writes_nothing(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("busy-writes-nothing"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, LONG).await;
    must_be_busy(&b.acquire(&name, LONG * 100).await);
    a.must_last(&name, 1, LONG).await;
    a.free(&name).await;
    must_be_free(&backend, &name).await;
}

/// Two leases of one process are unrelated for the store.
pub async fn two_leases_of_one_process_exclude_one_another(h: &impl Harness) {
    let (backend, name, process) = (h.store().await.backend, h.name("one-process"), ProcessId::random());
    let (a, b) = (Contender::of(&backend, process), Contender::of(&backend, process));
    a.take(&name, LONG).await;
    must_be_busy(&b.acquire(&name, LONG).await);
    a.must_hold(&name, 1).await;
}

/// A lease is a name and an id: the same id may hold two locks, and releases them one by one.
pub async fn one_lease_id_on_two_names_is_two_leases(h: &impl Harness) {
    let (backend, x, y) = (h.store().await.backend, h.name("x"), h.name("y"));
    let a = Contender::new(&backend);
    a.take(&x, LONG).await;
    a.take(&y, LONG).await;
    a.free(&x).await;
    must_be_free(&backend, &x).await;
    a.must_hold(&y, 1).await;
}

/// An acquire that is repeated after a lost reply is the same acquire: one release frees the lock.
pub async fn a_repeated_acquire_is_freed_by_one_release(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("repeat"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    a.take(&name, LONG).await;
    a.must_hold(&name, 1).await;
    a.free(&name).await;
    must_be_free(&backend, &name).await;
}

/// A late repeat, after a re-entry, does not lower the depth.
pub async fn a_repeated_acquire_keeps_the_depth(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("repeat-depth"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    assert_eq!(a.keep(&name, 3, LONG).await, Acquired::Reentered);
    a.take(&name, LONG).await;
    a.must_hold(&name, 3).await;
}

/// A repeat with a longer duration extends the lease.
pub async fn a_repeated_acquire_raises_the_expiry(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("repeat-raises"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    a.take(&name, LONG * 3).await;
    a.must_last(&name, 1, LONG * 3).await;
}

/// Depths are absolute: a re-entry that is sent twice counts once.
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

/// A re-entry that overtakes its acquire, or comes after the release, is answered with *gone* and creates no key.
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

/// A re-entry into another lease is answered with *gone* and does not touch it.
pub async fn a_re_entry_does_not_touch_anothers_lease(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("re-entry-other"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, LONG).await;
    let before = held(&backend, &name).await.map(|hold| (hold.lease, hold.depth));
    assert_eq!(b.keep(&name, 7, LONG * 2).await, Acquired::Gone);
    assert_eq!(held(&backend, &name).await.map(|hold| (hold.lease, hold.depth)), before);
    a.must_last(&name, 1, LONG).await;
}
