//! `GET /health/live`, `GET /health/ready` and `GET /metrics`.

use super::{App, problem::Problem};
use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

/// Time limit for the database check.
const WITHIN: Duration = Duration::from_secs(2);

/// Reports that the process is running. It does not check the database, because a restart would not
/// repair it.
pub(super) async fn live() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Reports whether the shop can sell. It need not lead the scheduler.
pub(super) async fn ready(State(shop): State<App>) -> Response {
    let (store, locks) = tokio::join!(timeout(WITHIN, shop.store().ping()), shop.locks.health());
    let (store, locks) = (matches!(store, Ok(Ok(()))), locks.is_healthy());
    let word = |ready| if ready { "ready" } else { "unavailable" };
    let scheduler = match shop.cron() {
        None => "off",
        Some(cron) if cron.is_leading() => "leader",
        Some(_) => "follower",
    };
    let status = if store && locks { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({ "database": word(store), "locks": word(locks), "scheduler": scheduler });
    (status, Json(body)).into_response()
}

pub(super) async fn metrics(State(shop): State<App>) -> Result<Response, Problem> {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, shop.metrics.text()?).into_response())
}
