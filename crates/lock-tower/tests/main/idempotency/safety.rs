//! Similar requests, and retries of work that may have been done.

use super::{Site, answer, pay, respond};
use crate::support::secs;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::Path,
    response::Response,
    routing::post,
};
use http::Request;
use lock_core::{LockFactory, MemoryBackend};
use lock_tower::{BufferRequestLayer, LockLayer, Rejection, idempotency::IdempotencyLayer};
use std::{future::pending, panic::AssertUnwindSafe, time::Duration};

/// The work of the first attempt may have been done before it panicked.
#[tokio::test(start_paused = true)]
async fn attempts_before_a_rejection_are_counted() {
    let site = Site::new();
    let app = site.app(site.layer(), async |attempt| match attempt {
        1 => panic!("after the payment"),
        2 => respond(429, "busy"),
        _ => respond(201, attempt.to_string()),
    });
    let panicked = futures_util::FutureExt::catch_unwind(AssertUnwindSafe(answer(&app, pay("k", "")))).await;
    assert!(panicked.is_err());
    assert_eq!(answer(&app, pay("k", "")).await.0, 429);
    assert_eq!(answer(&app, pay("k", "other")).await.0, 422, "the key is not free");
    assert_eq!(answer(&app, pay("k", "")).await, (201, false, "3".into()));
}

#[tokio::test(start_paused = true)]
async fn unlimited_retention_is_accepted() {
    let site = Site::new();
    let app = site.app(site.layer().retention(Duration::MAX), async |_| respond(201, ""));
    for replayed in [false, true] {
        assert_eq!(answer(&app, pay("k", "")).await.1, replayed);
    }
}

/// A request passed through by the filter creates no record for another layer's lock.
#[tokio::test(start_paused = true)]
async fn lock_of_another_layer_is_not_a_claim() {
    let site = Site::new();
    let lock = site.lock_of(site.world.locks.clone()).filter(|_| false);
    let idempotent = IdempotencyLayer::unscoped(lock, site.store.clone());
    let app = site
        .app(idempotent, async |_| respond(201, ""))
        .layer(LockLayer::new(site.world.locks.clone()).key("cart"));
    for _ in 0..2 {
        assert_eq!(answer(&app, pay("k", "")).await, (201, false, String::new()));
    }
    assert_eq!(site.runs(), 2);
}

/// A nested router only receives the end of the path.
#[tokio::test(start_paused = true)]
async fn fingerprint_covers_the_full_path() {
    let site = Site::new();
    let pays = post(async |Path(account): Path<String>| account).route_layer(site.layer());
    let app = Router::new().nest("/accounts/{account}", Router::new().route("/pay", pays));
    let of = |path: &str| Request::post(path).header("idempotency-key", "k").body(Body::empty()).unwrap();
    assert_eq!(answer(&app, of("/accounts/1/pay")).await, (200, false, "1".into()));
    assert_eq!(answer(&app, of("/accounts/2/pay")).await.0, 422);
}

/// Two applications share a record store but have separate lock stores.
#[tokio::test(start_paused = true)]
async fn applications_with_different_prefixes_are_isolated() {
    let site = Site::new();
    let app = |prefix: &'static str| {
        let locks = LockFactory::builder(MemoryBackend::new()).prefix(prefix).build().unwrap();
        let idempotent = IdempotencyLayer::unscoped(site.lock_of(locks), site.store.clone());
        site.app(idempotent, move |_| async move { respond(201, prefix) })
    };
    let (shop, billing) = (app("shop"), app("billing"));
    assert_eq!(answer(&shop, pay("k", "")).await, (201, false, "shop".into()));
    assert_eq!(answer(&billing, pay("k", "")).await, (201, false, "billing".into()));
    assert_eq!(answer(&billing, pay("k", "")).await, (201, true, "billing".into()));
    // Another process of the shop application.
    assert_eq!(answer(&app("shop"), pay("k", "")).await, (201, true, "shop".into()));
}

/// The application's custom rejection does not declare an `Execution`.
#[tokio::test(start_paused = true)]
async fn rejection_of_inner_lock_is_never_stored() {
    type Form = fn(Rejection) -> Response;
    let forms: [(u16, Form); 3] = [
        (409, |rejection| rejection.into_problem_response().map(Body::new)),
        (503, |_| respond(503, "busy")),
        (200, |rejection| rejection.into_grpc_response().map(Body::new)),
    ];
    for (status, form) in forms {
        let site = Site::new();
        let stock = LockLayer::new(site.world.locks.clone()).key("stock").wait(secs(0)).on_reject(form);
        let app =
            Router::new().route("/pay", post(async || "paid").route_layer(stock).route_layer(site.layer()));
        let guard = site.world.another_process().named("stock").unwrap().acquire().await.unwrap();
        assert_eq!(answer(&app, pay("k", "")).await.0, status);
        guard.release().await.unwrap();
        assert_eq!(answer(&app, pay("k", "")).await, (200, false, "paid".into()), "after a {status}");
    }
}

/// Another request fills an inner layer's buffer.
#[tokio::test(start_paused = true)]
async fn rejection_of_a_full_inner_buffer_is_not_stored() {
    let site = Site::new();
    let buffer = BufferRequestLayer::new().budget(4);
    let hold = post(async |_: Bytes| pending::<()>().await).route_layer(buffer.clone());
    let pays = post(async |_: Bytes| "paid").route_layer(buffer).route_layer(site.layer());
    let app = Router::new().route("/hold", hold).route("/pay", pays);
    let holder = tokio::spawn({
        let app = app.clone();
        async move { answer(&app, Request::post("/hold").body(Body::from("1234")).unwrap()).await }
    });
    site.world.settle().await;
    assert_eq!(answer(&app, pay("k", "5678")).await.0, 503);
    holder.abort();
    site.world.settle().await;
    assert_eq!(answer(&app, pay("k", "5678")).await, (200, false, "paid".into()));
}
/// Each slash takes three bytes in the record's name.
#[tokio::test(start_paused = true)]
async fn keys_up_to_the_limit_are_accepted() {
    let site = Site::new();
    let app = site.app(site.layer(), async |_| respond(201, ""));
    for key in ["/".repeat(255), "k".repeat(255)] {
        assert_eq!(answer(&app, pay(&key, "")).await, (201, false, String::new()));
        assert_eq!(answer(&app, pay(&key, "")).await, (201, true, String::new()));
    }
}
