//! `POST /admin/strategy` and `POST /admin/fault`, for demonstrations. They accept only JSON, which
//! other origins cannot send without a preflight request.

use super::{App, problem::Problem};
use crate::{fault::Fault, strategy::Strategy};
use axum::{
    Json,
    extract::{State, rejection::JsonRejection},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    strategy: Strategy,
}

/// Switches the strategy. Orders in flight complete with their initial strategy.
pub(super) async fn strategy(
    State(shop): State<App>,
    body: Result<Json<Change>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let Json(Change { strategy }) = body?;
    if strategy.keeps_own_stock() || shop.strategy().keeps_own_stock() {
        let detail = "cannot switch to or from `units` and `redis-lua`, which keep their own stock count: start a shop \
             on a new database with --strategy";
        return Err(Problem::new(StatusCode::CONFLICT, "own-stock", detail));
    }
    if strategy.needs_redis() && !shop.seller.has_redis() {
        let detail = "this strategy keeps its data in Redis: set --locks to the address of a Redis server";
        return Err(Problem::new(StatusCode::CONFLICT, "strategy-unavailable", detail));
    }
    shop.set_strategy(strategy);
    Ok(Json(json!({ "strategy": strategy })))
}

pub(super) async fn fault(
    State(shop): State<App>,
    body: Result<Json<Fault>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Json(fault) = body?;
    shop.faults.arm(fault);
    Ok(StatusCode::NO_CONTENT)
}
