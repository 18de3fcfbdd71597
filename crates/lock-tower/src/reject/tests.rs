use super::*;
use crate::key::KeyError;
use http::{StatusCode, header};
use http_body_util::BodyExt;
use std::time::Duration;

fn rejection(reason: RejectReason) -> Rejection {
    let status = reason.status();
    Rejection::new(reason, status, None, Duration::from_secs(1))
}

#[test]
fn details_are_escaped_in_json() {
    let said = "a \"quoted\" \\ thing\nof two lines \u{1}";
    let problem = rejection(RejectReason::Key(KeyError::bad_request(said))).into_problem_response();
    let body = format!("{:?}", problem.body());
    assert!(!body.is_empty());
    let json =
        futures_util::FutureExt::now_or_never(problem.into_body().collect()).unwrap().unwrap().to_bytes();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["detail"], said);
}

#[test]
fn custom_status_is_in_head_and_body() {
    let response = rejection(RejectReason::Contended).with_status(StatusCode::LOCKED).into_problem_response();
    assert_eq!(response.status(), StatusCode::LOCKED);
    let json =
        futures_util::FutureExt::now_or_never(response.into_body().collect()).unwrap().unwrap().to_bytes();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((json["status"].as_u64(), json["title"].as_str()), (Some(423), Some("Lock is held")));
}

/// Clients branch on these values, so changing them is a breaking change.
#[test]
fn problem_types_and_titles_are_stable() {
    let lock_error = || {
        let error = lock_core::LockFactory::new(lock_core::MemoryBackend::new()).named("").unwrap_err();
        assert_eq!(error.kind(), lock_core::LockErrorKind::InvalidName);
        error
    };
    let reasons = [
        (RejectReason::Contended, "contended", "Lock is held"),
        (RejectReason::Timeout, "timeout", "Lock was not released in time"),
        (RejectReason::TooManyWaiters, "overloaded", "Too many requests are waiting or running"),
        (RejectReason::TooManyDetached, "overloaded", "Too many requests are waiting or running"),
        (RejectReason::Unavailable(lock_error()), "backend_error", "Lock service is unavailable"),
        (RejectReason::Lost(lock_core::LostReason::Gone), "lost", "Lock was lost"),
        (RejectReason::ShutDown, "shut_down", "Server is shutting down"),
        (RejectReason::Key(KeyError::missing("")), "bad_key", "Lock key is missing or malformed"),
        (RejectReason::Key(KeyError::bad_request("")), "bad_key", "Lock key is missing or malformed"),
        (RejectReason::Key(KeyError::unavailable("")), "key_unavailable", "Lock key could not be determined"),
        (RejectReason::Key(KeyError::misconfigured("")), "misconfigured", "Server is misconfigured"),
        (RejectReason::Misconfigured(lock_error()), "misconfigured", "Server is misconfigured"),
        (RejectReason::Key(KeyError::NoRoute), "no_route", "No route"),
        (RejectReason::KeyReused, "key_reused", "Idempotency key was used for another request"),
        (
            RejectReason::LostBeforeWork(lock_core::LostReason::MaxHold),
            "lost_before_work",
            "Lock was lost before the work began",
        ),
        (RejectReason::RecordsUnavailable, "records_unavailable", "Idempotency records are unavailable"),
    ];
    for (reason, word, title) in reasons {
        let rejection = rejection(reason);
        assert_eq!((rejection.reason().as_str(), rejection.title()), (word, title));
        let uri = format!("urn:problem-type:distlock:{word}");
        assert_eq!(rejection.problem_type(), uri);
        let body = rejection.into_problem_response().into_body().collect();
        let json = futures_util::FutureExt::now_or_never(body).unwrap().unwrap().to_bytes();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((json["type"].as_str(), json["title"].as_str()), (Some(uri.as_str()), Some(title)));
        assert_eq!(json["reason"], word);
    }
}

#[test]
fn retries_are_spread() {
    let times: Vec<_> = (0..64).map(|_| response::retry_after(Duration::from_secs(4))).collect();
    let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    assert!(*first >= Duration::from_secs(4) && *last <= Duration::from_secs(8), "{first:?} to {last:?}");
    assert!(*last - *first > Duration::from_secs(1), "{first:?} to {last:?}");
    assert!(times.iter().all(|time| time.subsec_nanos() % 1_000_000 == 0), "the header and the body agree");
    assert!(response::retry_after(Duration::ZERO) >= Duration::from_secs(1), "without a wait");
    assert!(response::retry_after(Duration::MAX) <= Duration::from_secs(60), "with an unlimited wait");
    assert_eq!(response::whole_seconds(Duration::from_millis(1001)), 2);
}

#[test]
fn grpc_rejections_are_trailers_only() {
    let cases = [
        (RejectReason::Contended, "10", true),
        (RejectReason::Timeout, "14", true),
        (RejectReason::TooManyWaiters, "8", true),
        (RejectReason::TooManyDetached, "8", true),
        // May be partially complete, so clients must not retry automatically.
        (RejectReason::Lost(lock_core::LostReason::Gone), "10", false),
        (RejectReason::LostBeforeWork(lock_core::LostReason::Gone), "14", true),
        (RejectReason::ShutDown, "14", true),
        (RejectReason::Key(KeyError::bad_request("100 % ä\n")), "3", false),
        (RejectReason::Key(KeyError::misconfigured("secret")), "13", false),
        (RejectReason::Key(KeyError::unavailable("secret")), "14", true),
    ];
    for (reason, status, again) in cases {
        let response = rejection(reason.clone()).into_grpc_response();
        let text = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(
            (response.status(), text("grpc-status").as_deref()),
            (StatusCode::OK, Some(status)),
            "{reason:?}"
        );
        assert_eq!(text("content-type").as_deref(), Some("application/grpc"));
        assert_eq!(text("grpc-retry-pushback-ms").is_some(), again, "{reason:?}");
        let message = text("grpc-message").unwrap();
        assert!(!message.contains("secret") && !message.contains('\n'), "{message}");
        assert!(http_body::Body::is_end_stream(response.body()), "the body is empty");
    }
    let escaped = rejection(RejectReason::Key(KeyError::bad_request("100 % ä\n"))).into_grpc_response();
    assert_eq!(escaped.headers()["grpc-message"], "100 %25 %C3%A4%0A");
    assert!(!escaped.headers().contains_key(header::RETRY_AFTER));
}

#[test]
fn hash_uses_the_process_secret() {
    let name = |text| lock_core::LockName::new(text).unwrap();
    let hash = KeyHash::of(&name("account:4711"));
    assert_eq!(hash, KeyHash::of(&name("account:4711")), "stable within the process");
    assert_ne!(hash, KeyHash::of(&name("account:4712")));
    assert_ne!(hash, KeyHash::with_secret([0; 16], &name("account:4711")), "depends on the secret");
}

/// Replicas of different versions must agree. OpenSSL prints the same hash:
/// `printf account:4711 | openssl mac -macopt size:8 -macopt hexkey:000102030405060708090a0b0c0d0e0f SIPHASH`
#[test]
fn hash_is_siphash_2_4() {
    let secret: [u8; 16] = std::array::from_fn(|at| at as u8);
    let hash = |text| KeyHash::with_secret(secret, &lock_core::LockName::new(text).unwrap()).to_string();
    assert_eq!(hash("account:4711"), "f89c7ed1ac22d89c");
}
