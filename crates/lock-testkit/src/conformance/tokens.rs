//! Fencing token properties. The token of a grant exceeds all earlier granted and reserved tokens.

use super::{
    Harness,
    contender::{Contender, LONG, PAST_SHORT, SHORT, Tokens},
};
use lock_core::{FencingToken, backend::Acquired};

/// Tokens increase from holder to holder, across clients.
pub async fn tokens_grow_from_holder_to_holder(h: &impl Harness) {
    let (store, name) = (h.store().await, h.name("grow"));
    let other = h.another(&store).await.backend;
    let mut last = FencingToken::new(0);
    for round in 0..10 {
        let a = Contender::new(if round % 2 == 0 { &store.backend } else { &other });
        let tokens = a.take(&name, LONG).await;
        assert!(tokens.first > last, "{tokens:?} must be greater than {last:?}");
        last = tokens.last;
        a.free(&name).await;
    }
}

/// Tokens also increase after a lease that expired without a release.
pub async fn tokens_grow_over_the_end_of_a_lease(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("grow-end"));
    let before = Contender::new(&backend).take_with(&name, SHORT, 10, None).await;
    h.pass(PAST_SHORT).await;
    let after = Contender::new(&backend).take(&name, LONG).await;
    assert!(after.first > before.last, "{after:?} must be greater than {before:?}");
}

/// A repeated acquire draws new tokens. The client uses one of the two replies and discards the
/// other.
pub async fn tokens_grow_over_a_repeat(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("grow-repeat"));
    let a = Contender::new(&backend);
    let before = a.take_with(&name, LONG, 10, None).await;
    let after = a.take_with(&name, LONG, 10, None).await;
    assert!(after.first > before.last, "{after:?} must be greater than {before:?}");
}

/// Tokens increase even if acquires of a held lock and re-entries occur in between.
pub async fn tokens_grow_over_busy_answers_and_re_entries(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("grow-busy"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    let before = a.take(&name, LONG).await;
    assert!(matches!(b.acquire(&name, LONG).await, Acquired::Busy { .. }), "expected `Busy` for a held lock");
    assert_eq!(a.keep(&name, 2, LONG).await, Acquired::Reentered);
    a.free(&name).await;
    let after = b.take(&name, LONG).await;
    assert!(after.first > before.last, "{after:?} must be greater than {before:?}");
}

/// A range contains at least one token, and at most as many further tokens as requested. The next
/// grant's token is beyond the end of the range.
pub async fn a_range_is_no_longer_than_asked_and_is_never_given_again(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("range"));
    let mut end = FencingToken::new(0);
    for reserve in [0, 5, 100, 1, u32::MAX, 0] {
        let a = Contender::new(&backend);
        let Tokens { first, last } = a.take_with(&name, LONG, reserve, None).await;
        assert!(first > end, "{first:?} must exceed the last range, which ended at {end:?}");
        assert!(first <= last, "empty range: {first:?} to {last:?}");
        let drawn = last.get() - first.get();
        assert!(drawn <= reserve.into(), "{drawn} tokens reserved, {reserve} requested");
        end = last;
        a.free(&name).await;
    }
}

/// A caller that continues a lost sequence passes its last token as the floor, and receives greater
/// tokens from then on.
pub async fn tokens_exceed_the_floor(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("floor"));
    let a = Contender::new(&backend);
    let before = a.take(&name, LONG).await;
    a.free(&name).await;
    let floor = FencingToken::new(before.last.get() + 5_000_000);
    let lifted = a.take_with(&name, LONG, 10, Some(floor)).await;
    assert!(lifted.first > floor, "{lifted:?} must exceed the floor {floor:?}");
    a.free(&name).await;
    let after = a.take(&name, LONG).await;
    assert!(after.first > lifted.last, "{after:?} must be greater than {lifted:?}, even without a floor");
}

/// A floor below the current tokens does not lower them.
pub async fn a_low_floor_changes_nothing(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("low-floor"));
    let a = Contender::new(&backend);
    let before = a.take(&name, LONG).await;
    a.free(&name).await;
    let after = a.take_with(&name, LONG, 0, Some(FencingToken::new(1))).await;
    assert!(after.first > before.last, "{after:?} must be greater than {before:?}");
}

/// Tokens fit into an SQL `BIGINT` and a double.
pub async fn tokens_fit_a_database(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("bigint"));
    let tokens = Contender::new(&backend).take_with(&name, LONG, 100, None).await;
    assert!(tokens.first.get() > 0, "0 is the token of a resource that was never written");
    assert!(tokens.last.get() < 1 << 53, "{tokens:?} does not fit into a double");
}
