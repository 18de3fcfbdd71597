//! The routes of a shop.
//!
//! | route | effect |
//! | --- | --- |
//! | `GET /skus`, `GET /skus/{sku}` | shows products |
//! | `POST /skus/{sku}/orders` | sells, under the product's lock if the strategy needs it |
//! | `POST /skus/{sku}/reservations` | reserves units for a limited time, under the product's lock |
//! | `POST /reservations/{id}/confirm`, `DELETE /reservations/{id}` | ends a reservation |
//! | `GET /health/live`, `GET /health/ready`, `GET /metrics` | serves orchestrators and Prometheus |
//! | `GET /state`, `GET /events` | returns the state as JSON, once or as a stream |
//! | `POST /admin/strategy`, `POST /admin/fault` | changes the strategy or injects a fault, only with [`Admin::Open`] |
//!
//! Every error response is a problem document (RFC 9457). Every response names the shop in its
//! `x-shop` header.

mod admin;
mod extract;
mod health;
mod layer;
mod orders;
pub(crate) mod problem;
mod reservations;
mod skus;
mod state;

use crate::shop::Shop;
use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderName, HeaderValue, StatusCode},
    middleware::map_response_with_state,
    response::Response,
    routing::{delete, get, post},
};
use problem::Problem;
use std::sync::Arc;

/// Name of the header that contains the shop's name and process id.
pub const SHOP_HEADER: HeaderName = HeaderName::from_static("x-shop");

/// Maximum size of a request body, in bytes.
const MAX_BODY: usize = 16 * 1024;

/// The availability of the routes under `/admin`. They need no password, so enable them only on a loopback address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admin {
    /// The routes are available.
    Open,
    /// The routes respond with 404.
    Closed,
}

type App = Arc<Shop>;

/// Returns the routes of a shop.
pub fn router(shop: Arc<Shop>, admin: Admin) -> Router {
    let instance = HeaderValue::from_str(&shop.instance()).unwrap_or(HeaderValue::from_static("shop"));
    let routes = Router::new()
        .route("/skus", get(skus::list))
        .route("/skus/{sku}", get(skus::one))
        .route("/skus/{sku}/orders", orders::route(&shop))
        .route("/skus/{sku}/reservations", reservations::route(&shop))
        .route("/reservations/{id}/confirm", post(reservations::confirm))
        .route("/reservations/{id}", delete(reservations::cancel))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/state", get(state::now))
        .route("/events", get(state::stream));
    let routes = match admin {
        Admin::Open => {
            routes.route("/admin/strategy", post(admin::strategy)).route("/admin/fault", post(admin::fault))
        }
        Admin::Closed => routes,
    };
    routes
        .fallback(async || {
            Problem::new(StatusCode::NOT_FOUND, "not-found", "there is no resource at this path")
        })
        .method_not_allowed_fallback(async || {
            let detail = "the path does not allow this method: see the `Allow` header";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(map_response_with_state(instance, name_shop))
        .with_state(shop)
}

async fn name_shop(State(instance): State<HeaderValue>, mut response: Response) -> Response {
    response.headers_mut().insert(SHOP_HEADER, instance);
    response
}
