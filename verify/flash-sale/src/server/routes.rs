//! The routes of a server: those of the bench, and behind them the shop's router, or another strategy's for orders. The routes
//! under `/control` accept only JSON, which other origins cannot send without a preflight request.

use super::{Bench, state};
use crate::{faults::Fault, problem::Problem, strategy::Strategy};
use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Request, State, rejection::JsonRejection},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::map_response_with_state,
    response::Response,
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::Value;
use std::{process, sync::Arc};
use tower::ServiceExt;

/// Name of the header that contains the server's name and process id.
const SHOP: HeaderName = HeaderName::from_static("x-shop");
/// Maximum size of a refusal, in bytes.
const MAX_REFUSAL: usize = 64 * 1024;

pub(super) fn router(bench: Arc<Bench>) -> Router {
    let name = HeaderValue::from_str(&format!("{}/{}", bench.name, process::id()));
    let name = name.unwrap_or(HeaderValue::from_static("shop"));
    Router::new()
        .route("/state", get(state::report))
        .route("/control/strategy", post(strategy))
        .route("/control/fault", post(fault))
        .fallback(dispatch)
        .layer(map_response_with_state(name, name_shop))
        .with_state(bench)
}

async fn name_shop(State(name): State<HeaderValue>, mut response: Response) -> Response {
    response.headers_mut().insert(SHOP, name);
    response
}

async fn dispatch(State(bench): State<Arc<Bench>>, request: Request) -> Response {
    let Some(sku) = ordered(&request) else {
        return answer(bench.routers.shop(), request).await;
    };
    // In use until the answer is there: a change of strategy is complete when the last order of the earlier one has ended.
    let strategy = bench.strategy.begin();
    let response = answer(bench.routers.orders(*strategy), request).await;
    bench.conclude(&sku, response).await
}

/// Returns the product of an order.
fn ordered(request: &Request) -> Option<String> {
    let path = request.uri().path().strip_prefix("/products/")?;
    let sku = path.strip_suffix("/orders").filter(|_| request.method() == Method::POST)?;
    Some(sku.to_owned())
}

async fn answer(router: Router, request: Request) -> Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

impl Bench {
    /// Counts the end of an order. The refusal of a stale holder also receives the newer token, for the report.
    async fn conclude(&self, sku: &str, response: Response) -> Response {
        if response.status().is_success() {
            if !response.headers().contains_key("idempotent-replayed") {
                self.counters.sold();
            }
            return response;
        }
        let (mut head, body) = response.into_parts();
        let body = to_bytes(body, MAX_REFUSAL).await.unwrap_or_default();
        let mut problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        let word = problem["type"].as_str().and_then(|kind| kind.rsplit(':').next()).unwrap_or_default();
        self.counters.refused(word);
        if word != "stale-holder" {
            return Response::from_parts(head, Body::from(body));
        }
        if let Ok(newer) = self.fence(sku).await {
            problem["newer"] = newer.into();
        }
        head.headers.remove(header::CONTENT_LENGTH);
        Response::from_parts(head, Body::from(problem.to_string()))
    }

    async fn fence(&self, sku: &str) -> Result<i64, sqlx::Error> {
        let fence = sqlx::query_scalar("select fence from products where sku = $1");
        fence.bind(sku).fetch_one(self.shop.store.pool()).await
    }
}

/// The body of `POST /control/strategy`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    strategy: Strategy,
}

/// Switches the strategy. Orders under way end with the strategy with which they began.
async fn strategy(
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

/// Arms a fault.
async fn fault(
    State(bench): State<Arc<Bench>>,
    body: Result<Json<Fault>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Json(fault) = body?;
    bench.faults.arm(fault);
    Ok(StatusCode::NO_CONTENT)
}
