//! `POST /skus/{sku}/orders`.

use super::{
    App,
    extract::{Key, Listed, quantity},
    layer,
    problem::Problem,
};
use crate::{
    domain::{Order, Outcome, Receipt, Stale},
    shop::{Shop, StrategyInUse},
};
use axum::{
    Extension, Json,
    extract::{Request, State, rejection::JsonRejection},
    http::StatusCode,
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodRouter, post},
};
use lock_core::FencingToken;
use lock_tower::LockHandle;
use serde::Deserialize;
use serde_json::json;
use std::{panic, sync::Arc};

/// Returns the route. The layers are on the method instead of the router, so a GET responds with
/// 405 without acquiring a lock. The layer added last runs first.
pub(super) fn route(shop: &Arc<Shop>) -> MethodRouter<App> {
    let lock = layer::lock(shop).detach(&shop.detached).filter(|request| {
        request.extensions.get::<StrategyInUse>().is_some_and(|strategy| strategy.needs_lock())
    });
    post(place)
        .route_layer(lock)
        .route_layer(layer::buffer())
        .route_layer(from_fn_with_state(shop.clone(), admit))
}

/// Rejects requests that can be rejected without the lock, and chooses the strategy for the layer
/// and the handler.
async fn admit(
    State(shop): State<App>,
    _listed: Listed,
    _key: Key,
    mut request: Request,
    next: Next,
) -> Response {
    request.extensions_mut().insert(shop.begin());
    next.run(request).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    quantity: u32,
}

async fn place(
    State(shop): State<App>,
    Extension(strategy): Extension<StrategyInUse>,
    lock: Option<LockHandle>,
    listed: Listed,
    Key(key): Key,
    body: Result<Json<Body>, JsonRejection>,
) -> Result<Response, Problem> {
    let Json(Body { quantity: pieces }) = body?;
    let quantity = quantity(pieces)?;
    let order = Order { key, cents: listed.price.times(quantity), sku: listed.sku, quantity };
    let token = lock.map(|lock| lock.fencing_token());
    let selling = {
        let shop = shop.clone();
        async move { shop.seller.sell(*strategy, &order, token).await }
    };
    let outcome = match token {
        // The layer has already detached this handler.
        Some(_) => selling.await?,
        None => shop.finish(selling).await?,
    };
    shop.counters.count(&outcome);
    answer(outcome)
}

impl Shop {
    /// Runs work to completion even if the client disconnects.
    pub(super) async fn finish<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match self.tasks.spawn(work).await {
            Ok(done) => done,
            // These tasks are never aborted.
            Err(ended) => panic::resume_unwind(ended.into_panic()),
        }
    }
}

/// Returns the response to an order. Only 201 and 200 acknowledge the order.
pub(super) fn answer(outcome: Outcome) -> Result<Response, Problem> {
    match outcome {
        Outcome::Accepted(receipt) => Ok(acknowledge(StatusCode::CREATED, &receipt)),
        Outcome::Repeated(receipt) => Ok(acknowledge(StatusCode::OK, &receipt)),
        Outcome::KeyReused => {
            let detail = "another order was placed with this Idempotency-Key: send a new key with each order";
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", detail))
        }
        Outcome::InProgress => {
            let detail = "an order with this Idempotency-Key is in progress: repeat the request";
            Err(Problem::new(StatusCode::CONFLICT, "in-progress", detail).retry_after(1))
        }
        Outcome::SoldOut => {
            let detail = "there are not that many units left; nothing was charged";
            Err(Problem::new(StatusCode::CONFLICT, "sold-out", detail))
        }
        Outcome::Declined => {
            let detail =
                "the payment was declined; nothing was sold: order fewer units, or pay in another way";
            Err(Problem::new(StatusCode::PAYMENT_REQUIRED, "payment-declined", detail))
        }
        Outcome::Stale(stale) => Err(self::stale(stale)),
    }
}

fn acknowledge(status: StatusCode, receipt: &Receipt) -> Response {
    let Receipt { key, sku, quantity, token } = receipt;
    let body = json!({
        "order": key,
        "sku": sku,
        "quantity": quantity,
        "token": token.map(FencingToken::get),
    });
    (status, Json(body)).into_response()
}

pub(super) fn stale(Stale { mine, newer }: Stale) -> Problem {
    let detail = "another request acquired the lock in the meantime, and the store refused this one; nothing was \
        sold: repeat the request";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stale-holder", detail)
        .with("token", mine.get())
        .with("newer", newer.get())
        .retry_after(1)
}
