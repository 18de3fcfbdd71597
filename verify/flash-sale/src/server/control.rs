//! `POST /control/strategy` and `POST /control/fault`. They accept only JSON, which other origins cannot send without a
//! preflight request.

use super::Bench;
use crate::{faults::Fault, problem::Problem, strategy::Strategy};
use axum::{
    Json,
    extract::{State, rejection::JsonRejection},
    http::StatusCode,
};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    strategy: Strategy,
}

/// Switches the strategy. Orders under way end with the strategy with which they began.
pub(super) async fn strategy(
    State(bench): State<Arc<Bench>>,
    body: Result<Json<Change>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Json(Change { strategy }) = body?;
    if strategy.keeps_own_stock() || bench.strategy.get().keeps_own_stock() {
        let detail = "cannot switch to or from `units` and `redis-lua`, which keep their own stock count: start a server \
             on new databases with --strategy";
        return Err(Problem::new(StatusCode::CONFLICT, "own-stock", detail));
    }
    if strategy.needs_redis() && !bench.has_redis {
        let detail = "this strategy keeps its data in Redis: set --locks to the address of a Redis server";
        return Err(Problem::new(StatusCode::CONFLICT, "strategy-unavailable", detail));
    }
    bench.strategy.set(strategy);
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn fault(
    State(bench): State<Arc<Bench>>,
    body: Result<Json<Fault>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Json(fault) = body?;
    bench.faults.arm(fault);
    Ok(StatusCode::NO_CONTENT)
}
