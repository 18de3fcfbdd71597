//! Handlers that acquire their own locks reject requests like a layer.

use crate::support::{World, ask, get, millis, problem, text};
use axum::{Router, extract::Path, routing::any};
use http::StatusCode;
use lock_core::{LockError, LockFactory, LockName, LostReason, RunError, backend::BackendErrorKind};
use lock_testkit::{Fault, Op};
use lock_tower::{RejectReason, Rejection};

async fn order(locks: LockFactory, sku: String) -> Result<&'static str, Rejection> {
    let guard = locks.named(LockName::of(("stock", sku))?)?.acquire_timeout(millis(200)).await?;
    let _ = guard.release().await;
    Ok("sold")
}

fn app(world: &World) -> Router {
    let locks = world.locks.clone();
    Router::new().route("/{sku}", any(async move |Path(sku): Path<String>| order(locks, sku).await))
}

#[tokio::test(start_paused = true)]
async fn held_lock_is_rejected_like_in_the_layer() {
    let world = World::new();
    let app = app(&world);
    let guard = world.another_process().named("stock:7").unwrap().acquire().await.unwrap();
    let layer = Router::new()
        .route("/{sku}", any(async || "sold"))
        .route_layer(world.layer().key("stock:{sku}").wait(millis(200)));
    let by_handler = problem(ask(&app, get("/7")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    let by_layer = problem(ask(&layer, get("/7")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    for member in ["type", "title", "status", "detail", "reason"] {
        assert_eq!(by_handler[member], by_layer[member], "{member}");
    }
    assert!(by_handler["retry_after_ms"].as_u64().unwrap() >= 1000);
    guard.release().await.unwrap();
    assert_eq!(text(ask(&app, get("/7")).await).await, "sold");
}

#[tokio::test(start_paused = true)]
async fn store_failure_and_invalid_name_differ() {
    let world = World::new();
    let app = app(&world);
    world.faulty.next(Op::Acquire, Fault::Refuse(BackendErrorKind::Denied));
    let json = problem(ask(&app, get("/7")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "backend_error");
    let long = "x".repeat(600);
    let json = problem(ask(&app, get(&format!("/{long}"))).await, StatusCode::BAD_REQUEST).await;
    assert_eq!(json["reason"], "bad_key");
    assert!(!json.to_string().contains(&long), "{json}");
}

#[test]
fn lost_lock_suggests_no_retry() {
    let lost = Rejection::from(RunError::Lost(LostReason::Expired));
    assert_eq!((lost.reason().as_str(), lost.retry_after()), ("lost", None));
    let busy = Rejection::from(RejectReason::Contended);
    assert_eq!(busy.status(), StatusCode::CONFLICT);
    assert!(busy.retry_after().is_some());
    let url = Rejection::from(RunError::NotAcquired(LockError::invalid_url("none")));
    assert_eq!(url.status(), StatusCode::INTERNAL_SERVER_ERROR);
}
