//! Requests to a shop, and the responses.

use super::QuickError;
use crate::domain::Order;
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};
use tower::ServiceExt;

/// The possible responses to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted,
    SoldOut,
    Stale,
}

/// Maximum size of a response, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// Places an order.
pub(super) async fn place(shop: &Router, order: &Order) -> Result<Answer, QuickError> {
    let request = Request::post(format!("/skus/{}/orders", order.sku))
        .header("idempotency-key", order.key.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(json!({ "quantity": order.quantity }).to_string()))
        .expect("a sku and a key are valid in a request");
    let Ok(response) = shop.clone().oneshot(request).await;
    let status = response.status();
    let body = to_bytes(response.into_body(), MAX_ANSWER).await.unwrap_or_default();
    if status == StatusCode::CREATED {
        return Ok(Answer::Accepted);
    }
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    match problem["reason"].as_str() {
        Some("sold-out") => Ok(Answer::SoldOut),
        Some("stale-holder") => Ok(Answer::Stale),
        _ => Err(QuickError::Answer { status, body: String::from_utf8_lossy(&body).into_owned() }),
    }
}
