//! Extractors that validate requests, so handlers receive only valid values.

use super::{App, problem::Problem};
use crate::domain::{Cents, IdempotencyKey, KeyError, Order, Quantity, Sku};
use axum::{
    extract::{FromRequestParts, Path},
    http::{StatusCode, request::Parts},
};

/// A product of the catalogue, from the path.
pub(super) struct Listed {
    pub(super) sku: Sku,
    pub(super) price: Cents,
}

impl FromRequestParts<App> for Listed {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shop: &App) -> Result<Self, Problem> {
        let Path(code) = Path::<String>::from_request_parts(parts, shop).await?;
        let unknown = || {
            Problem::new(StatusCode::NOT_FOUND, "unknown-sku", "the shop has no such product: see GET /skus")
        };
        let sku = Sku::parse(&code).map_err(|_| unknown())?;
        let price = *shop.prices.get(&sku).ok_or_else(unknown)?;
        Ok(Self { sku, price })
    }
}

const KEY: &str = "idempotency-key";

/// The idempotency key of an order, from the header `Idempotency-Key`.
pub(super) struct Key(pub(super) IdempotencyKey);

impl FromRequestParts<App> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let refuse = |detail: String| Problem::new(StatusCode::BAD_REQUEST, KEY, detail);
        let mut values = parts.headers.get_all(KEY).iter();
        match (values.next(), values.next()) {
            (None, _) => Err(refuse(
                "the header Idempotency-Key is missing: send a new random key with each order, and the same key with \
                 each retry"
                    .into(),
            )),
            (Some(key), None) => {
                let key = key.to_str().map_err(|_| KeyError::Character);
                key.and_then(str::parse).map(Self).map_err(|error| refuse(error.to_string()))
            }
            (Some(_), Some(_)) => {
                Err(refuse("the header Idempotency-Key is present more than once: send only one".into()))
            }
        }
    }
}

/// Validates a number of units.
pub(super) fn quantity(pieces: u32) -> Result<Quantity, Problem> {
    match (1..=Order::MAX_QUANTITY).contains(&pieces) {
        true => Ok(Quantity::new(pieces)),
        false => {
            let detail = format!("the quantity is {pieces}: order 1 to {} units", Order::MAX_QUANTITY);
            Err(Problem::new(StatusCode::BAD_REQUEST, "quantity", detail))
        }
    }
}
