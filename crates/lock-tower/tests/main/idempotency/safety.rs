//! Requests that look alike, and retries of work that may have been done.

use super::{Site, answer};
use axum::{Router, body::Body, extract::Path, routing::post};
use http::Request;

/// A nested router sees the end of the path only.
#[tokio::test(start_paused = true)]
async fn path_outside_of_a_nested_router_counts() {
    let site = Site::new();
    let pays = post(async |Path(account): Path<String>| account).route_layer(site.layer());
    let app = Router::new().nest("/accounts/{account}", Router::new().route("/pay", pays));
    let of = |path: &str| Request::post(path).header("idempotency-key", "k").body(Body::empty()).unwrap();
    assert_eq!(answer(&app, of("/accounts/1/pay")).await, (200, false, "1".into()));
    assert_eq!(answer(&app, of("/accounts/2/pay")).await.0, 422);
}
