//! Lease duration properties. A lease lasts as long as requested, and renewals only extend it.

use super::{
    Harness,
    contender::{Contender, LONG, PAST_SHORT, RENEWED, SHORT, look, must_be_free},
};
use lock_core::backend::{Acquired, BackendExt as _, Inspected, Renewed};
use std::time::Duration;

/// The maximum error from rounding to milliseconds at both ends.
const ROUNDING: Duration = Duration::from_millis(5);

/// By the server's clock, a lease lasts exactly as long as requested.
pub async fn a_lease_lasts_as_long_as_asked_and_no_longer(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("lasts"));
    // A server may pause between an operation and reading its clock, so each event is bracketed by
    // two times.
    let before = look(&backend, &name).await.now;
    let reply = Contender::new(&backend).acquire_reply(&name, SHORT).await;
    assert!(matches!(reply.outcome, Acquired::Granted { .. }), "expected a grant for a free lock");
    let step = SHORT / 20;
    for _ in 0..60 {
        let earliest = look(&backend, &name).await.now;
        let seen = look(&backend, &name).await;
        if seen.outcome == Inspected::Free {
            let passed = seen.now.since(before);
            assert!(passed + ROUNDING >= SHORT, "a lease of {SHORT:?} expired after {passed:?}");
            return;
        }
        let passed = earliest.since(reply.now);
        assert!(passed <= SHORT + ROUNDING, "a lease of {SHORT:?} still existed after {passed:?}");
        h.pass(step).await;
    }
    panic!("a lease of {SHORT:?} never expired");
}

/// The lock of a dead holder can be acquired once the lease has expired.
pub async fn an_ended_lease_is_free_for_the_next(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("ended"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, SHORT).await;
    a.keep(&name, 2, SHORT).await;
    h.pass(PAST_SHORT).await;
    must_be_free(&backend, &name).await;
    b.take(&name, LONG).await;
    b.must_hold(&name, 1).await;
}

/// A renewal of an expired lease does not revive it, even if the lock is free.
pub async fn an_ended_lease_cannot_be_renewed(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("ended-renew"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, SHORT).await;
    h.pass(PAST_SHORT).await;
    assert_eq!(a.renew(&name, LONG).await, Renewed::Gone);
    must_be_free(&backend, &name).await;
    b.take(&name, LONG).await;
    assert_eq!(a.renew(&name, LONG * 2).await, Renewed::Gone);
    b.must_last(&name, 1, LONG).await;
}

/// A re-entry of an expired lease does not revive it.
pub async fn an_ended_lease_cannot_be_re_entered(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("ended-re-entry"));
    let a = Contender::new(&backend);
    a.take(&name, SHORT).await;
    h.pass(PAST_SHORT).await;
    assert_eq!(a.keep(&name, 2, LONG).await, Acquired::Gone);
    must_be_free(&backend, &name).await;
}

/// A renewed lease outlasts its original expiry.
pub async fn a_renewed_lease_outlives_its_first_end(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("renewed"));
    let a = Contender::new(&backend);
    a.take(&name, RENEWED).await;
    assert_eq!(a.renew(&name, LONG).await, Renewed::Renewed);
    h.pass(RENEWED).await;
    a.must_last(&name, 1, LONG).await;
}

/// A renewal keeps the depth.
pub async fn a_renewal_keeps_the_depth(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("renewed-depth"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    a.keep(&name, 4, LONG).await;
    assert_eq!(a.renew(&name, LONG).await, Renewed::Renewed);
    a.must_hold(&name, 4).await;
}

/// A renewal that arrives before its acquire or after the release creates nothing.
pub async fn a_renewal_never_creates(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("renewed-never-taken"));
    let a = Contender::new(&backend);
    assert_eq!(a.renew(&name, LONG).await, Renewed::Gone, "the lease never existed");
    must_be_free(&backend, &name).await;
    a.take(&name, LONG).await;
    a.free(&name).await;
    assert_eq!(a.renew(&name, LONG).await, Renewed::Gone, "the lease was released");
    must_be_free(&backend, &name).await;
}

/// A renewal of a lock held by another lease returns `Gone` and does not extend that lease.
pub async fn a_renewal_does_not_touch_anothers_lease(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("renewed-other"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, LONG).await;
    assert_eq!(b.renew(&name, LONG * 3).await, Renewed::Gone);
    a.must_last(&name, 1, LONG).await;
}

/// A renewal with a shorter duration does not shorten the lease.
pub async fn a_shorter_renewal_does_not_lower_the_expiry(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("shorter-renewal"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    assert_eq!(a.renew(&name, SHORT).await, Renewed::Renewed);
    a.must_last(&name, 1, LONG).await;
}

/// A re-entry with a shorter duration does not shorten the lease.
pub async fn a_shorter_re_entry_does_not_lower_the_expiry(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("shorter-re-entry"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    assert_eq!(a.keep(&name, 2, SHORT).await, Acquired::Reentered);
    a.must_last(&name, 2, LONG).await;
}

/// A repeated acquire with a shorter duration does not shorten the lease.
pub async fn a_shorter_repeat_does_not_lower_the_expiry(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("shorter-repeat"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    a.take(&name, SHORT).await;
    a.must_last(&name, 1, LONG).await;
}

/// The replies to many renewals in one call are in order, and no item affects another.
pub async fn many_renewals_answer_in_order_and_each_for_itself(h: &impl Harness) {
    const MANY: usize = 120;
    // On a slow disk, it takes long to acquire them.
    const PATIENT: Duration = Duration::from_secs(10 * 60);
    let backend = h.store().await.backend;
    let (a, other) = (Contender::new(&backend), Contender::new(&backend));
    let names: Vec<_> = (0..MANY).map(|number| h.name(&format!("many-{number}"))).collect();
    let mut items = Vec::new();
    for (number, name) in names.iter().enumerate() {
        match number % 3 {
            0 => drop(a.take(name, PATIENT).await),
            1 => drop(other.take(name, PATIENT).await),
            _ => {}
        }
        items.push(a.renewal(name, PATIENT * 3));
    }
    let answers = backend.renew(items).await;
    assert_eq!(answers.len(), MANY, "expected one reply per item");
    for (number, answer) in answers.into_iter().enumerate() {
        let expected = if number % 3 == 0 { Renewed::Renewed } else { Renewed::Gone };
        let answer = answer.expect("renewal failed on a healthy store");
        assert_eq!(answer.outcome, expected, "wrong reply to item {number}");
    }
    a.must_last(&names[0], 1, PATIENT * 3).await;
    let theirs = other.must_hold(&names[1], 1).await;
    assert!(theirs.remaining.is_none_or(|left| left <= PATIENT), "another's lease was renewed: {theirs:?}");
    must_be_free(&backend, &names[2]).await;
}

/// Each renewal has its own duration.
pub async fn each_renewal_has_its_own_duration(h: &impl Harness) {
    let (backend, x, y) = (h.store().await.backend, h.name("x"), h.name("y"));
    let a = Contender::new(&backend);
    a.take(&x, RENEWED).await;
    a.take(&y, RENEWED).await;
    let answers = backend.renew(vec![a.renewal(&x, LONG), a.renewal(&y, LONG * 3)]).await;
    assert!(answers.iter().all(|a| a.as_ref().is_ok_and(|r| r.outcome == Renewed::Renewed)), "{answers:?}");
    a.must_last(&x, 1, LONG).await;
    a.must_last(&y, 1, LONG * 3).await;
}

/// A call without renewals returns no replies.
pub async fn renewing_nothing_answers_nothing(h: &impl Harness) {
    let backend = h.store().await.backend;
    assert!(backend.renew(Vec::new()).await.is_empty());
}

/// A lease of two months, which exceeds 32 bits of milliseconds, is stored exactly and can be
/// released.
pub async fn a_lease_of_months_is_kept_whole(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("months"));
    let months = Duration::from_secs(60 * 24 * 3600);
    let lease = backend.capabilities().max_lease.map_or(months, |max| max.min(months));
    let a = Contender::new(&backend);
    a.take(&name, lease).await;
    a.must_last(&name, 1, lease).await;
    a.free(&name).await;
    must_be_free(&backend, &name).await;
}
