//! Wake-up properties. Once its subscription is acknowledged, a subscriber is notified of every
//! release of its locks, and of nothing else.
//!
//! Correctness never depends on wake-ups; only waiting times do. Backends without subscriptions
//! skip these checks.

use super::{
    Harness,
    contender::{Contender, LONG},
    listener::Listener,
};
use lock_core::backend::{ForceReleaseRequest, ForceReleased, NotifyWaiters, Released};

/// A release after the acknowledgement wakes subscribers, including another client's subscribers.
pub async fn release_wakes_subscribers(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("wake"));
    let other = h.another(&store).await;
    let Some(listener) = Listener::watching(&other, &name).await else { return };
    let a = Contender::new(&store.backend);
    a.take(&name, LONG).await;
    assert_eq!(listener.count(&name), 0, "an acquire must not wake a waiter");
    let released = a.release(&name, 0).await;
    let Released::Released { listeners } = released else {
        panic!("expected {name} to be released, got {released:?}")
    };
    assert_ne!(listeners, Some(0), "there must be a listener");
    listener.must_hear(h, &name, 1).await;
}

/// Every release wakes subscribers, not only the first one.
pub async fn every_release_wakes(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("wake-again"));
    let Some(listener) = Listener::watching(&store, &name).await else { return };
    for round in 1..=3 {
        let a = Contender::new(&store.backend);
        a.take(&name, LONG).await;
        a.free(&name).await;
        listener.must_hear(h, &name, round).await;
    }
}

/// A registered listener without a subscription is not woken.
pub async fn no_wake_up_before_watching(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("no-watch"));
    let Some(listener) = Listener::register(&store) else { return };
    let a = Contender::new(&store.backend);
    a.take(&name, LONG).await;
    a.free(&name).await;
    listener.must_not_hear_more(h, &name, 0).await;
}

/// After an unsubscribe there are no further wake-ups, and the listener can subscribe again.
pub async fn no_wake_up_after_unwatching(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("unwatch"));
    let Some(listener) = Listener::watching(&store, &name).await else { return };
    listener.unwatch(&name).await;
    let a = Contender::new(&store.backend);
    a.take(&name, LONG).await;
    a.free(&name).await;
    listener.must_not_hear_more(h, &name, 0).await;
    listener.watch(&name).await;
    a.take(&name, LONG).await;
    a.free(&name).await;
    listener.must_hear(h, &name, 1).await;
}

/// Unsubscribing without a subscription is not an error.
pub async fn unwatching_what_is_not_watched_is_harmless(h: &impl Harness) {
    let (store, name, other) = (h.store().await, h.name("unwatch-nothing"), h.name("unwatch-other"));
    let Some(listener) = Listener::watching(&store, &name).await else { return };
    listener.unwatch(&other).await;
    listener.unwatch(&other).await;
    let a = Contender::new(&store.backend);
    a.take(&name, LONG).await;
    a.free(&name).await;
    listener.must_hear(h, &name, 1).await;
}

/// A partial release wakes no waiter, because the lock is not free.
pub async fn a_release_to_a_depth_wakes_nobody(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("kept-quiet"));
    let Some(listener) = Listener::watching(&store, &name).await else { return };
    let a = Contender::new(&store.backend);
    a.take(&name, LONG).await;
    a.keep(&name, 2, LONG).await;
    assert_eq!(a.release(&name, 1).await, Released::Kept);
    listener.must_not_hear_more(h, &name, 0).await;
    a.free(&name).await;
    listener.must_hear(h, &name, 1).await;
}

/// A release without notification wakes no waiter. It is used to undo a lost quorum round.
pub async fn a_release_without_publishing_wakes_nobody(h: &impl Harness) {
    if h.wakes_by_deleting() {
        println!(
            "skipped: each release of this store wakes, because waiters watch the record that it deletes"
        );
        return;
    }
    let (store, name) = (h.store().await, h.name("silent"));
    let Some(listener) = Listener::watching(&store, &name).await else { return };
    let a = Contender::new(&store.backend);
    a.take(&name, LONG).await;
    let released = a.release_with(&name, 0, NotifyWaiters::No).await;
    assert!(
        matches!(released, Released::Released { .. }),
        "expected {name} to be released, got {released:?}"
    );
    listener.must_not_hear_more(h, &name, 0).await;
}

/// A release that frees nothing, such as a repeat after a lost reply, wakes no waiter.
pub async fn a_release_that_frees_nothing_wakes_nobody(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("gone-quiet"));
    let Some(listener) = Listener::watching(&store, &name).await else { return };
    let a = Contender::new(&store.backend);
    a.take(&name, LONG).await;
    a.free(&name).await;
    a.release(&name, 0).await;
    Contender::new(&store.backend).release(&name, 0).await;
    listener.must_hear(h, &name, 1).await;
    listener.must_not_hear_more(h, &name, 1).await;
}

/// A release that may wake waiters even if the lease is gone frees the lock and wakes them like any other. It never
/// touches another holder.
pub async fn a_release_that_wakes_even_if_gone_frees_and_wakes(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("even-if-gone"));
    let Some(listener) = Listener::watching(&store, &name).await else { return };
    let (a, b) = (Contender::new(&store.backend), Contender::new(&store.backend));
    a.take(&name, LONG).await;
    a.keep(&name, 2, LONG).await;
    let freed = a.release_with(&name, 0, NotifyWaiters::EvenIfGone).await;
    assert!(matches!(freed, Released::Released { .. }), "expected {name} to be released, got {freed:?}");
    listener.must_hear(h, &name, 1).await;
    let again = a.release_with(&name, 0, NotifyWaiters::EvenIfGone).await;
    assert_eq!(again, Released::Gone { held_by_other: false });
    b.take(&name, LONG).await;
    let late = a.release_with(&name, 0, NotifyWaiters::EvenIfGone).await;
    assert_eq!(late, Released::Gone { held_by_other: true });
    b.must_hold(&name, 1).await;
}

/// A forced release wakes subscribers if it freed the lock.
pub async fn a_forced_release_wakes(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("forced"));
    let Some(listener) = Listener::watching(&store, &name).await else { return };
    let a = Contender::new(&store.backend);
    a.take(&name, LONG).await;
    let force = ForceReleaseRequest { name: name.clone(), seen: a.lease().to_string() };
    for expected in [ForceReleased::Released, ForceReleased::HolderChanged] {
        let forced = store.backend.force_release(force.clone()).await.expect("forced release failed");
        assert_eq!(forced.outcome, expected);
    }
    listener.must_hear(h, &name, 1).await;
    listener.must_not_hear_more(h, &name, 1).await;
}

/// Two identical subscriptions count as one. Each release causes one wake-up, and one unsubscribe
/// ends both.
pub async fn second_subscription_changes_nothing(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("watch-twice"));
    let Some(listener) = Listener::watching(&store, &name).await else { return };
    listener.watch(&name).await;
    let a = Contender::new(&store.backend);
    a.take(&name, LONG).await;
    a.free(&name).await;
    listener.must_hear(h, &name, 1).await;
    listener.must_not_hear_more(h, &name, 1).await;
    listener.unwatch(&name).await;
    a.take(&name, LONG).await;
    a.free(&name).await;
    listener.must_not_hear_more(h, &name, 1).await;
}

/// A release wakes only the subscribers of its own lock.
pub async fn a_wake_up_carries_the_right_name(h: &impl Harness) {
    let (store, x, y) = (h.store().await, h.name("wake-x"), h.name("wake-y"));
    let Some(listener) = Listener::watching(&store, &x).await else { return };
    listener.watch(&y).await;
    let a = Contender::new(&store.backend);
    a.take(&x, LONG).await;
    a.take(&y, LONG).await;
    a.free(&y).await;
    listener.must_hear(h, &y, 1).await;
    listener.must_not_hear_more(h, &x, 0).await;
}

/// Two subscribers of one client are both woken, and one can unsubscribe without affecting the
/// other.
pub async fn two_subscribers_are_independent(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("two-ears"));
    let Some(first) = Listener::watching(&store, &name).await else { return };
    let Some(second) = Listener::watching(&store, &name).await else { return };
    let a = Contender::new(&store.backend);
    a.take(&name, LONG).await;
    a.free(&name).await;
    first.must_hear(h, &name, 1).await;
    second.must_hear(h, &name, 1).await;
    first.unwatch(&name).await;
    a.take(&name, LONG).await;
    a.free(&name).await;
    second.must_hear(h, &name, 2).await;
    first.must_not_hear_more(h, &name, 1).await;
}

/// A listener dropped without unsubscribing does not affect others.
pub async fn a_subscriber_that_is_gone_is_no_harm(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("gone-ear"));
    let Some(gone) = Listener::watching(&store, &name).await else { return };
    drop(gone);
    let Some(listener) = Listener::watching(&store, &name).await else { return };
    let a = Contender::new(&store.backend);
    a.take(&name, LONG).await;
    a.free(&name).await;
    listener.must_hear(h, &name, 1).await;
}
