//! Keys, payloads and retries.

use super::{Site, answer, is_replay, pay, respond};
use crate::support::{ask, millis, problem, secs};
use axum::{Router, body::Body, response::Response};
use http::{Request, StatusCode};
use lock_tower::{
    KeyError,
    idempotency::{IdempotencyLayer, MemoryIdempotencyStore},
};

async fn paid(_: usize) -> Response {
    respond(201, "receipt")
}

async fn slow(_: usize) -> Response {
    tokio::time::sleep(secs(5)).await;
    respond(201, "receipt")
}

#[tokio::test(start_paused = true)]
async fn retry_replays_the_response() {
    let site = Site::new();
    let handler = async |_| {
        let answer = Response::builder().status(201).header("location", "/payments/7").header("x-sum", "7");
        answer.header("set-cookie", "s=1").header("x-request-id", "1").body(Body::from("receipt")).unwrap()
    };
    let app = site.app(site.layer().headers(["x-sum".parse().unwrap()]), handler);
    let first = ask(&app, pay("k", "7 EUR")).await;
    assert!(!is_replay(first.headers()) && first.headers().contains_key("set-cookie"));
    for _ in 0..2 {
        let retry = ask(&app, pay("k", "7 EUR")).await;
        assert_eq!(retry.status(), StatusCode::CREATED);
        assert!(is_replay(retry.headers()));
        let headers = retry.headers();
        assert_eq!(
            (&headers["location"], &headers["x-sum"], &headers["content-length"]),
            (&"/payments/7".parse().unwrap(), &"7".parse().unwrap(), &"7".parse().unwrap())
        );
        assert!(!headers.contains_key("set-cookie") && !headers.contains_key("x-request-id"));
        assert_eq!(crate::support::text(retry).await, "receipt");
    }
    assert_eq!(answer(&app, pay("\"k\"", "7 EUR")).await, (201, true, "receipt".into()), "in quotes");
    assert_eq!(answer(&app, pay("other", "7 EUR")).await, (201, false, "receipt".into()));
    assert_eq!(site.runs(), 2);
    assert_eq!(site.outcomes.take(), ["executed", "replayed", "replayed", "replayed", "executed"]);
    site.world.settle().await;
    site.world.assert_nothing_left();
}

/// A replayed receipt is still downloaded as a file.
#[tokio::test(start_paused = true)]
async fn content_headers_are_replayed() {
    let site = Site::new();
    let headers = [
        ("content-disposition", "attachment; filename=receipt.txt"),
        ("content-digest", "sha-256=:AAAA:"),
        ("content-language", "de"),
        ("content-length", "7"),
        ("content-type", "text/plain"),
    ];
    let app = site.app(site.layer(), move |_| async move {
        let answer =
            headers.iter().fold(Response::builder(), |answer, (name, value)| answer.header(*name, *value));
        answer.body(Body::from("receipt")).unwrap()
    });
    for replayed in [false, true] {
        let answer = ask(&app, pay("k", "")).await;
        assert_eq!(is_replay(answer.headers()), replayed);
        for (name, value) in headers {
            let values: Vec<_> = answer.headers().get_all(name).iter().collect();
            assert_eq!(values, [value], "{name}, replayed: {replayed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn other_payload_or_path_is_rejected() {
    let site = Site::new();
    let app = site.app(site.layer(), paid);
    answer(&app, pay("k", "7 EUR")).await;
    let query = Request::post("/pay?fast").header("idempotency-key", "k").body(Body::from("7 EUR")).unwrap();
    for other in [pay("k", "8 EUR"), query] {
        let json = problem(ask(&app, other).await, StatusCode::UNPROCESSABLE_ENTITY).await;
        assert_eq!(json["reason"], "key_reused");
        assert!(json["key_hash"].is_string() && json.get("retry_after_ms").is_none(), "{json}");
    }
    assert_eq!((site.runs(), site.outcomes.take().last()), (1, Some(&"key_reused")));
}

#[tokio::test(start_paused = true)]
async fn key_is_required_unless_optional() {
    let site = Site::new();
    let required = site.app(site.layer(), paid);
    let without = || Request::post("/pay").body(Body::empty()).unwrap();
    let json = problem(ask(&required, without()).await, StatusCode::BAD_REQUEST).await;
    assert_eq!(json["detail"], "the header `Idempotency-Key` is missing");
    assert_eq!(site.runs(), 0);

    let optional = site.app(site.layer().optional(), async |attempt| respond(200, attempt.to_string()));
    for _ in 0..2 {
        assert_eq!(
            answer(&optional, without()).await,
            (200, false, "0".into()),
            "neither an attempt nor a replay"
        );
    }
    problem(ask(&optional, pay("", "")).await, StatusCode::BAD_REQUEST).await;
    assert_eq!(answer(&optional, pay("k", "")).await, (200, false, "1".into()));
    assert_eq!(answer(&optional, pay("k", "")).await, (200, true, "1".into()));
    assert_eq!(site.runs(), 3);
}

#[tokio::test(start_paused = true)]
async fn keys_of_two_scopes_are_independent() {
    let site = Site::new();
    let by_user = |head: &http::request::Parts| {
        let user = head.headers.get("x-user").ok_or(KeyError::misconfigured("is there a login?"))?;
        Ok(user.to_str().unwrap().to_owned())
    };
    let lock = site.lock_of(site.world.locks.clone());
    let app = site.app(IdempotencyLayer::scoped(lock, site.store.clone(), by_user), paid);
    let of = |user| {
        let mut request = pay("k", "7 EUR");
        request.headers_mut().insert("x-user", user);
        request
    };
    for (user, replayed) in [("a", false), ("b", false), ("a", true), ("b", true)] {
        assert_eq!(answer(&app, of(user.parse().unwrap())).await.1, replayed, "{user}");
    }
    problem(ask(&app, pay("k", "7 EUR")).await, StatusCode::INTERNAL_SERVER_ERROR).await;

    let nobody = |_: &http::request::Parts| Err(KeyError::missing("no user"));
    let lock = site.lock_of(site.world.locks.clone());
    let layer = IdempotencyLayer::scoped(lock, site.store.clone(), nobody).optional();
    let app = site.app(layer, paid);
    problem(ask(&app, pay("k", "7 EUR")).await, StatusCode::BAD_REQUEST).await;
    assert_eq!(site.runs(), 2, "a key without its scope is not passed through");
}

/// Two servers share their locks and records.
#[tokio::test(start_paused = true)]
async fn retry_of_a_running_request_is_409() {
    let site = Site::new();
    let here = site.app(site.layer(), slow);
    let other = |wait| {
        let lock = site.lock_of(site.world.another_process()).wait(wait);
        site.app(IdempotencyLayer::unscoped(lock, site.store.clone()), slow)
    };
    let first = tokio::spawn({
        let here = here.clone();
        async move { answer(&here, pay("k", "7 EUR")).await }
    });
    site.world.settle().await;
    for (app, reason) in [(other(secs(0)), "contended"), (other(millis(500)), "timeout"), (here, "timeout")] {
        let response = ask(&app, pay("k", "7 EUR")).await;
        assert!(response.headers().contains_key("retry-after"));
        assert_eq!(problem(response, StatusCode::CONFLICT).await["reason"], reason);
    }
    let waits = answer(&other(secs(10)), pay("k", "7 EUR")).await;
    assert_eq!(waits, (201, true, "receipt".into()), "the retry waits for the first response");
    assert_eq!(first.await.unwrap(), (201, false, "receipt".into()));
    assert_eq!(site.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_outside_the_filter_pass_without_a_record() {
    let site = Site::new();
    let lock = site.lock_of(site.world.locks.clone()).filter(|head| !head.headers.contains_key("x-dry-run"));
    let app = site.app(IdempotencyLayer::unscoped(lock, MemoryIdempotencyStore::new()), paid);
    let dry = || {
        let mut request = pay("k", "7 EUR");
        request.headers_mut().insert("x-dry-run", "1".parse().unwrap());
        request
    };
    for _ in 0..2 {
        assert_eq!(answer(&app, dry()).await, (201, false, "receipt".into()));
    }
    assert_eq!((site.runs(), site.outcomes.take().len()), (2, 0));
}

/// A handler never runs without its lock, regardless of the lock layer's policies.
#[tokio::test(start_paused = true)]
async fn lock_is_never_bypassed() {
    let site = Site::new();
    let lock =
        site.lock_of(site.world.locks.clone()).shadow().on_unavailable(lock_tower::WithoutLock::PassThrough);
    let app: Router = site.app(IdempotencyLayer::unscoped(lock, site.store.clone()), paid);
    site.world.faulty.always(lock_testkit::Op::Acquire, lock_testkit::Fault::Hang);
    problem(ask(&app, pay("k", "7 EUR")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    site.world.faulty.heal();
    assert_eq!(site.runs(), 0);
}
