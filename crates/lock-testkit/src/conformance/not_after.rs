//! Properties of late requests and dropped calls, which must not leave an unknown lease behind.

use super::{
    Harness,
    contender::{Contender, LONG, Tokens, held, look, must_be_free, next},
};
use lock_core::{
    FencingToken, LockName,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Backend, BackendExt as _, Floor, Released, RenewRequest,
        Renewed,
    },
};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

/// Returns an acquire whose `not_after` is one second ago by the server's clock.
async fn late(a: &Contender, backend: &Arc<dyn Backend>, name: &LockName, floor: Floor) -> AcquireRequest {
    let not_after = look(backend, name).await.now - Duration::from_secs(1);
    AcquireRequest { not_after, ..a.request(name, LONG * 3, next(0, floor)).await }
}

/// An acquire that arrives after its `not_after` returns `Late` and creates nothing.
pub async fn a_late_acquire_creates_nothing(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("late"));
    let a = Contender::new(&backend);
    let request = late(&a, &backend, &name, None).await;
    assert_eq!(a.send(request).await.outcome, Acquired::Late);
    must_be_free(&backend, &name).await;
}

/// A late acquire draws no token, and its token floor has no effect.
pub async fn a_late_acquire_draws_no_token(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("late-token"));
    let a = Contender::new(&backend);
    let Tokens { first, .. } = a.take(&name, LONG).await;
    a.free(&name).await;
    let far = FencingToken::new(first.get() + 3_600_000_000);
    let request = late(&a, &backend, &name, Some(far)).await;
    assert_eq!(a.send(request).await.outcome, Acquired::Late);
    let after = a.take(&name, LONG).await;
    assert!(after.first < far, "the late acquire raised the counter: {after:?} is past {far:?}");
}

/// A renewal or re-entry that arrives after its `not_after` returns `Late` and extends nothing.
/// Otherwise it would keep a lease alive whose cleanup has already ended.
pub async fn a_late_renewal_or_re_entry_lengthens_nothing(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("late-renewal"));
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    let not_after = look(&backend, &name).await.now - Duration::from_secs(1);

    let item = RenewRequest { not_after, ..a.renewal(&name, LONG * 3) };
    let mut answers = backend.renew(vec![item]).await;
    assert_eq!(answers.remove(0).expect("renewal failed on a healthy store").outcome, Renewed::Late);

    let reentry =
        AcquireRequest { not_after, ..a.request(&name, LONG * 3, AcquireMode::Reenter { depth: 2 }).await };
    assert_eq!(a.send(reentry).await.outcome, Acquired::Late);

    let seen = held(&backend, &name).await.expect("the lease exists");
    assert!(
        seen.depth == 1 && seen.remaining.is_some_and(|left| left <= LONG),
        "the hold changed to {seen:?}"
    );
}

/// A late request returns `Late` even if the lock is held, so a late request is not mistaken for
/// contention.
pub async fn a_late_acquire_of_a_taken_lock_is_late(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("late-taken"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&name, LONG).await;
    for contender in [&a, &b] {
        let request = late(contender, &backend, &name, None).await;
        assert_eq!(contender.send(request).await.outcome, Acquired::Late);
    }
    a.must_last(&name, 1, LONG).await;
}

/// A lease id can be used again after a `Late` reply.
pub async fn a_late_lease_id_may_ask_again_in_time(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("late-again"));
    let a = Contender::new(&backend);
    let request = late(&a, &backend, &name, None).await;
    assert_eq!(a.send(request).await.outcome, Acquired::Late);
    a.take(&name, LONG).await;
    a.must_last(&name, 1, LONG).await;
}

/// Calls dropped after their first poll may or may not be executed. They do not disturb other
/// calls, and a lock they took can be released.
pub async fn dropped_calls_disturb_nobody(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("dropped"));
    let holder = Contender::new(&backend);
    holder.take(&name, LONG).await;
    for number in 0..20 {
        let (one_off, dropped) = (h.name(&format!("dropped-{number}")), Contender::new(&backend));
        let request = dropped.request(&one_off, LONG, next(0, None)).await;
        poll_once(backend.acquire(request)).await;
        poll_once(backend.renew(vec![dropped.renewal(&one_off, LONG)])).await;
        poll_once(backend.inspect(one_off.clone())).await;
        let undone = dropped.release(&one_off, 0).await;
        let free = matches!(undone, Released::Released { .. } | Released::Gone { held_by_other: false });
        assert!(free, "unexpected reply without another holder: {undone:?}");
    }
    holder.must_hold(&name, 1).await;
    holder.free(&name).await;
}

/// Polls a call once and drops it.
async fn poll_once<T>(call: impl Future<Output = T>) {
    let mut call = pin!(call);
    poll_fn(|cx| {
        let _ = call.as_mut().poll(cx).is_ready();
        Poll::Ready(())
    })
    .await;
}
