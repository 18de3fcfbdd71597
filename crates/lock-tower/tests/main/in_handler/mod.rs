//! Locks for the value parsed by the handler's extractor.

mod life;
mod rejections;
mod slot;
mod spelling;
mod uploads;
mod wiring;

use crate::support::World;
use axum::{Json, Router, body::Body, routing::post};
use http::Request;
use lock_core::LockKey;
use lock_tower::{LockLayer, LockSlot, Locked};

#[derive(Debug, serde::Deserialize, LockKey)]
#[lock_key("stock:{sku}")]
struct Sku {
    sku: u64,
}

#[derive(Debug, serde::Deserialize, LockKey)]
#[lock_key("account:{from}", "account:{to}")]
struct Transfer {
    from: u64,
    to: u64,
}

fn layer(world: &World) -> LockLayer<LockSlot> {
    world.layer().in_handler()
}

/// Returns the name of the request's lock.
async fn order(Locked(Json(sku), lock): Locked<Json<Sku>>) -> String {
    assert!(lock.is_held());
    assert_eq!(lock.name().as_str(), format!("stock:{}", sku.sku));
    lock.name().to_string()
}

fn orders(layer: LockLayer<LockSlot>) -> Router {
    Router::new().route("/orders", post(order).layer(layer))
}

fn json(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path).header("content-type", "application/json").body(body.into()).unwrap()
}

fn sku(id: u64) -> Request<Body> {
    json("/orders", format!("{{\"sku\":{id}}}"))
}
