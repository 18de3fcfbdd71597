//! `POST /skus/{sku}/reservations`, `POST /reservations/{id}/confirm` and `DELETE /reservations/{id}`.

use super::{
    App,
    extract::{Listed, quantity},
    layer,
    orders::{answer, stale},
    problem::Problem,
};
use crate::{
    domain::{IdempotencyKey, Order, Outcome, Reservation, ReservationState},
    shop::Shop,
    store::{Changed, Entry, Reserved, Written},
};
use axum::{
    Json,
    extract::{Path, State, rejection::JsonRejection},
    http::StatusCode,
    middleware::from_extractor_with_state,
    response::{IntoResponse, Response},
    routing::{MethodRouter, post},
};
use lock_cron::UtcTime;
use lock_tower::LockHandle;
use serde::Deserialize;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

pub(super) fn route(shop: &Arc<Shop>) -> MethodRouter<App> {
    post(reserve)
        .route_layer(layer::lock(shop).detach(&shop.detached))
        .route_layer(layer::buffer())
        .route_layer(from_extractor_with_state::<Listed, App>(shop.clone()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    quantity: u32,
    seconds: u32,
}

/// Creates a reservation, under the lock with every strategy. Without the lock, a holder that has
/// already read the stock would overwrite this change.
async fn reserve(
    State(shop): State<App>,
    lock: LockHandle,
    Listed { sku, price }: Listed,
    body: Result<Json<Body>, JsonRejection>,
) -> Result<Response, Problem> {
    let Json(Body { quantity: pieces, seconds }) = body?;
    let quantity = quantity(pieces)?;
    if !(1..=Reservation::MAX_SECONDS).contains(&seconds) {
        let detail =
            format!("a reservation of {seconds} s is not possible: use 1 to {} s", Reservation::MAX_SECONDS);
        return Err(Problem::new(StatusCode::BAD_REQUEST, "seconds", detail));
    }
    let expires_at = UtcTime::now() + Duration::from_secs(seconds.into());
    let reservation = Reservation {
        id: Uuid::new_v4().to_string(),
        sku,
        quantity,
        cents: price.times(quantity),
        expires_at,
        state: ReservationState::Held,
    };
    match shop.store().reserve(&reservation, Some(lock.fencing_token())).await? {
        Reserved::Held => {
            let body = json!({ "id": reservation.id, "expires_at": expires_at.to_string() });
            Ok((StatusCode::CREATED, Json(body)).into_response())
        }
        Reserved::Stale(refused) => Err(stale(refused)),
        Reserved::SoldOut | Reserved::IdTaken => answer(Outcome::SoldOut),
    }
}

/// Confirms a reservation. This does not change the stock, so it needs no lock. The state of the
/// row determines whether the confirmation or the expiry came first.
pub(super) async fn confirm(State(shop): State<App>, Path(id): Path<String>) -> Result<Response, Problem> {
    let reservation = find(&shop, &id).await?;
    let work = {
        let shop = shop.clone();
        async move { shop.confirm(&reservation).await }
    };
    let outcome = shop.finish(work).await?;
    shop.counters.count(&outcome);
    answer(outcome)
}

impl Shop {
    async fn confirm(&self, reservation: &Reservation) -> Result<Outcome, Problem> {
        let Reservation { id, sku, quantity, cents, .. } = reservation.clone();
        // The reservation's id is the key of its order, so a repeated confirmation finds the order.
        let key: IdempotencyKey = id.parse().map_err(|_| gone(reservation.state))?;
        let order = Order { key, sku, quantity, cents };
        if let Some(receipt) = self.store().receipt(&order.key).await? {
            return Ok(receipt.repeated_by(&order));
        }
        if reservation.state != ReservationState::Held {
            return Err(gone(reservation.state));
        }
        let Ok(payment) = self.seller.payments().charge(&order).await else {
            return Ok(Outcome::Declined);
        };
        let entry = Entry { order: &order, shop: &self.config.name, token: None };
        let written = self.store().confirm(reservation, entry).await?;
        Ok(self.seller.conclude(&order, None, payment, written.unwrap_or(Written::KeyTaken)).await?)
    }
}

/// Cancels a reservation. The product is not in the path, so the handler acquires the lock itself.
pub(super) async fn cancel(State(shop): State<App>, Path(id): Path<String>) -> Result<Response, Problem> {
    let reservation = find(&shop, &id).await?;
    if reservation.state == ReservationState::Held {
        let work = {
            let (shop, reservation) = (shop.clone(), reservation.clone());
            async move { shop.give_back(&reservation, ReservationState::Cancelled).await }
        };
        if let Changed::Stale(refused) = shop.finish(work).await? {
            return Err(stale(refused));
        }
    }
    match find(&shop, &reservation.id).await?.state {
        ReservationState::Cancelled => Ok(StatusCode::NO_CONTENT.into_response()),
        state => Err(gone(state)),
    }
}

/// Returns a reservation that these routes created. Those of the strategy `conditional`, whose ids are
/// not UUIDs, are not found.
async fn find(shop: &Shop, id: &str) -> Result<Reservation, Problem> {
    let found = match Uuid::parse_str(id) {
        Ok(id) => shop.store().reservation(&id.to_string()).await?,
        Err(_) => None,
    };
    let detail = "there is no such reservation: create one with POST /skus/{sku}/reservations";
    found.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "unknown-reservation", detail))
}

fn gone(state: ReservationState) -> Problem {
    let detail = format!("the reservation is {state}: create a new one");
    Problem::new(StatusCode::CONFLICT, "reservation-closed", detail).with("state", state.as_str())
}
