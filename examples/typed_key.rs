//! How do I lock by the JSON body that my axum handler has parsed?
//!
//! The handler's own extractor reads, parses and validates the request. Then the layer acquires the lock of the parsed
//! value: all spellings of an id share a lock, a slow upload holds nothing, and rejected requests take no lock.

use axum::{Json, Router, body::Body, routing::post};
use distlock::{
    LockFactory, LockKey, MemoryBackend,
    tower::{LockLayer, LockSetHandle, Locked},
};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

#[derive(serde::Deserialize, LockKey)]
#[lock_key("stock:{sku}")]
struct NewOrder {
    sku: u64,
    count: u32,
}

#[derive(serde::Deserialize, LockKey)]
#[lock_key("stock:{from}", "stock:{to}")] // both, in one order for all requests
struct Move {
    from: u64,
    to: u64,
}

async fn order(Locked(Json(order), lock): Locked<Json<NewOrder>>) -> String {
    format!("{} of {} under {}, token {}", order.count, order.sku, lock.name(), lock.fencing_token())
}

async fn transfer(Locked(Json(order), locks): Locked<Json<Move>, LockSetHandle>) -> String {
    format!("from {} to {} under {} locks", order.from, order.to, locks.holds().len())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = LockFactory::new(MemoryBackend::new()); // in production: `distlock::connect(…).await?`
    let lock = LockLayer::new(locks.clone()).in_handler();
    let app = Router::new()
        .route("/orders", post(order).layer(lock.clone()))
        .route("/moves", post(transfer).layer(lock));
    let ask = async |path: &str, json: &'static str| -> Result<_, Box<dyn std::error::Error>> {
        let request =
            Request::post(path).header("content-type", "application/json").body(Body::from(json))?;
        let (head, body) = app.clone().oneshot(request).await?.into_parts();
        Ok((head.status, String::from_utf8(body.collect().await?.to_bytes().to_vec())?))
    };

    println!("{}", ask("/orders", r#"{"sku": 7, "count": 2}"#).await?.1);
    println!("{}", ask("/moves", r#"{"from": 8, "to": 7}"#).await?.1);

    // A program without a route names the same lock with the same type.
    let held = locks.all(NewOrder { sku: 7, count: 1 }.lock_names()?)?.acquire().await?;
    let (status, _) = ask("/orders", r#"{"sku": 7, "count": 1}"#).await?;
    println!("while a worker holds it: {status}");
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);

    // The response of `Json` itself, without a lock and without a wait.
    println!("a missing field: {}", ask("/orders", r#"{"sku": 7}"#).await?.0);
    drop(held);
    Ok(())
}
