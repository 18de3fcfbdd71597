//! Conformance tests for idempotency stores, with one function per property.

use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderValue, Response, StatusCode};
use lock_core::{FencingToken, LockName};
use lock_tower::idempotency::{Attempt, BeginRequest, Begun, Fingerprint, IdempotencyStore, StoreError};
use std::time::{Duration, SystemTime};

/// Generates a test of each property for the store created by an expression. This module must be in
/// scope.
macro_rules! conformance {
    ($make:expr) => {
        conformance! { $make =>
            first_attempt_starts, response_is_returned_unchanged, different_request_is_a_mismatch,
            older_and_equal_tokens_are_superseded, newer_attempt_takes_over, response_is_stored_once,
            abandoned_key_is_free, stale_attempt_removes_nothing, expired_record_is_replaced,
            concurrent_attempts_are_ordered, names_are_independent,
        }
    };
    ($make:expr => $($property:ident,)*) => {
        $(
            #[tokio::test]
            async fn $property() {
                let store = $make.await;
                conformance::$property(&store).await;
            }
        )*
    };
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn request(token: u64) -> BeginRequest {
    let now = SystemTime::UNIX_EPOCH + 20_000 * DAY;
    BeginRequest {
        name: LockName::from_static("idempotency:u7:k"),
        token: FencingToken::new(token),
        fingerprint: Fingerprint::new([7; 32]),
        now,
        expires_at: now + DAY,
    }
}

pub(crate) fn attempt(token: u64) -> Attempt {
    Attempt::new(request(token).name, FencingToken::new(token), 1)
}

fn said(text: &'static str) -> Response<Bytes> {
    Response::new(Bytes::from_static(text.as_bytes()))
}

/// Starts an attempt and returns its number.
async fn starts(store: &dyn IdempotencyStore, request: &BeginRequest) -> u32 {
    match store.begin(request).await.unwrap() {
        Begun::Started { number } => number,
        other => panic!("{other:?}"),
    }
}

async fn is_superseded(store: &dyn IdempotencyStore, token: u64) -> bool {
    matches!(store.begin(&request(token)).await.unwrap(), Begun::Superseded)
}

/// Returns the stored response.
async fn stored(store: &dyn IdempotencyStore, token: u64) -> Response<Bytes> {
    match store.begin(&request(token)).await.unwrap() {
        Begun::Answered(answer) => answer,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn first_attempt_starts(store: &dyn IdempotencyStore) {
    assert_eq!(starts(store, &request(5)).await, 1);
}

pub(crate) async fn response_is_returned_unchanged(store: &dyn IdempotencyStore) {
    starts(store, &request(5)).await;
    let body = Bytes::from_iter(0..=255);
    let mut answer = Response::new(body.clone());
    *answer.status_mut() = StatusCode::IM_A_TEAPOT;
    for (name, value) in [("x-a", "b: c"), ("x-a", ""), ("location", "/orders/7")] {
        answer.headers_mut().append(name, HeaderValue::from_static(value));
    }
    answer.headers_mut().insert("x-raw", HeaderValue::from_bytes(b"\xff\xe4").unwrap());
    store.complete(&attempt(5), &answer).await.unwrap();
    for token in [5, 6, 4] {
        let stored = stored(store, token).await;
        assert_eq!((stored.status(), stored.body()), (answer.status(), &body));
        assert_eq!(stored.headers(), answer.headers());
    }
}

pub(crate) async fn different_request_is_a_mismatch(store: &dyn IdempotencyStore) {
    starts(store, &request(5)).await;
    let other = |token| BeginRequest { fingerprint: Fingerprint::new([8; 32]), ..request(token) };
    assert!(matches!(store.begin(&other(6)).await.unwrap(), Begun::Mismatch));
    store.complete(&attempt(5), &said("done")).await.unwrap();
    assert!(matches!(store.begin(&other(7)).await.unwrap(), Begun::Mismatch));
    assert_eq!(stored(store, 8).await.body(), "done");
}

pub(crate) async fn older_and_equal_tokens_are_superseded(store: &dyn IdempotencyStore) {
    starts(store, &request(5)).await;
    assert!(is_superseded(store, 5).await);
    assert!(is_superseded(store, 4).await);
    store.complete(&attempt(5), &said("done")).await.unwrap();
}

pub(crate) async fn newer_attempt_takes_over(store: &dyn IdempotencyStore) {
    for (token, number) in [(5, 1), (6, 2), (9, 3)] {
        assert_eq!(starts(store, &request(token)).await, number);
    }
    for stale in [5, 6] {
        let refused = store.complete(&attempt(stale), &said("stale")).await.unwrap_err();
        assert!(matches!(refused, StoreError::Superseded), "{refused:?}");
    }
    store.complete(&attempt(9), &said("done")).await.unwrap();
    assert_eq!(stored(store, 10).await.body(), "done");
}

pub(crate) async fn response_is_stored_once(store: &dyn IdempotencyStore) {
    let refused = store.complete(&attempt(5), &said("never begun")).await.unwrap_err();
    assert!(matches!(refused, StoreError::Superseded), "{refused:?}");
    starts(store, &request(5)).await;
    store.complete(&attempt(5), &said("first")).await.unwrap();
    let refused = store.complete(&attempt(5), &said("second")).await.unwrap_err();
    assert!(matches!(refused, StoreError::Superseded), "{refused:?}");
    assert_eq!(stored(store, 6).await.body(), "first");
}

pub(crate) async fn abandoned_key_is_free(store: &dyn IdempotencyStore) {
    starts(store, &request(5)).await;
    store.abandon(&attempt(5)).await.unwrap();
    let other = BeginRequest { fingerprint: Fingerprint::new([8; 32]), ..request(6) };
    assert_eq!(starts(store, &other).await, 1, "even for another payload");
}

pub(crate) async fn stale_attempt_removes_nothing(store: &dyn IdempotencyStore) {
    store.abandon(&attempt(4)).await.unwrap();
    starts(store, &request(5)).await;
    store.abandon(&attempt(4)).await.unwrap();
    store.complete(&attempt(5), &said("done")).await.unwrap();
    store.abandon(&attempt(5)).await.unwrap();
    assert_eq!(stored(store, 6).await.body(), "done");
}

pub(crate) async fn expired_record_is_replaced(store: &dyn IdempotencyStore) {
    let later = |token, days| {
        let begin = request(token);
        BeginRequest { now: begin.now + days * DAY, expires_at: begin.now + (days + 1) * DAY, ..begin }
    };
    starts(store, &request(5)).await;
    assert_eq!(starts(store, &later(4, 1)).await, 1, "an attempt without a response");
    store.complete(&attempt(4), &said("done")).await.unwrap();
    let other = BeginRequest { fingerprint: Fingerprint::new([8; 32]), ..later(3, 2) };
    assert_eq!(starts(store, &other).await, 1, "an attempt with a response");
    assert_eq!(
        starts(store, &BeginRequest { token: FencingToken::new(4), ..other }).await,
        2,
        "the record lasts until it expires"
    );
}

pub(crate) async fn concurrent_attempts_are_ordered(store: &dyn IdempotencyStore) {
    const LAST: u64 = 16;
    let requests: Vec<_> = (1..=LAST).map(request).collect();
    let begun = join_all(requests.iter().map(|request| store.begin(request))).await;
    let numbers: Vec<_> = begun
        .into_iter()
        .filter_map(|begun| match begun.unwrap() {
            Begun::Started { number } => Some(number),
            Begun::Superseded => None,
            other => panic!("{other:?}"),
        })
        .collect();
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), numbers.len(), "each attempt has its own number: {numbers:?}");
    for token in 1..LAST {
        assert!(store.complete(&attempt(token), &said("stale")).await.is_err());
    }
    store.complete(&attempt(LAST), &said("done")).await.unwrap();
}

pub(crate) async fn names_are_independent(store: &dyn IdempotencyStore) {
    let other = BeginRequest { name: LockName::from_static("idempotency:u8:k"), ..request(5) };
    starts(store, &request(5)).await;
    assert_eq!(starts(store, &other).await, 1);
    store.complete(&attempt(5), &said("done")).await.unwrap();
    let again = BeginRequest { token: FencingToken::new(6), ..other };
    assert_eq!(starts(store, &again).await, 2);
}
