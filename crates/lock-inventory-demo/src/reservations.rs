//! Reservations. They take no lock: one row of one database decides, so a conditional statement is correct, and faster.

use crate::{
    Shop, catalogue,
    domain::{OrderKey, Quantity, Sku},
    orders::{customer, key_of},
    problem::Problem,
    store::{End, Reserved},
};
use axum::{
    Json,
    extract::{
        Path, State,
        rejection::{JsonRejection, PathRejection},
    },
    http::{HeaderMap, StatusCode},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The body of a reservation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReservationBody {
    quantity: Quantity,
    seconds: u16,
}

/// `POST /products/{sku}/reservations`, whose `Idempotency-Key` names the reservation.
pub(crate) async fn reserve(
    State(shop): State<Shop>,
    sku: Result<Path<Sku>, PathRejection>,
    headers: HeaderMap,
    body: Result<Json<ReservationBody>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let (Path(sku), Json(ReservationBody { quantity, seconds })) = (sku?, body?);
    let key = key_of(&customer(&headers)?, &headers)?;
    catalogue::offer(&shop.store, &sku).await?;
    let life = Duration::from_secs(seconds.into());
    match shop.store.reserve(&key, &sku, quantity, life).await? {
        Reserved::Until(expires_at) => {
            let held = json!({ "id": key.of_customer(), "quantity": quantity, "expires_at": expires_at });
            Ok((StatusCode::CREATED, Json(held)))
        }
        Reserved::SoldOut => {
            let detail = "there are not that many units left: nothing is reserved";
            Err(Problem::new(StatusCode::CONFLICT, "sold-out", detail))
        }
        Reserved::KeyReused => {
            let detail =
                "this key was used for another reservation, or its reservation has ended: send a new key";
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", detail))
        }
    }
}

/// `DELETE /reservations/{key}`. Can be repeated, also after an order took the units.
pub(crate) async fn cancel(
    State(shop): State<Shop>,
    key: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let key = OrderKey::new(&customer(&headers)?, &key?)?;
    shop.store.end_reservation(&key, End::Cancelled).await?;
    Ok(StatusCode::NO_CONTENT)
}
