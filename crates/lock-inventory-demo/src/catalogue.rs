//! The products, as customers see them.

use crate::{
    Shop,
    domain::Sku,
    problem::Problem,
    store::{Offer, Store},
};
use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};

pub(crate) async fn list(State(shop): State<Shop>) -> Result<Json<Vec<Offer>>, Problem> {
    Ok(Json(shop.store.offers().await?))
}

pub(crate) async fn show(
    State(shop): State<Shop>,
    sku: Result<Path<Sku>, PathRejection>,
) -> Result<Json<Offer>, Problem> {
    let Path(sku) = sku?;
    Ok(Json(offer(&shop.store, &sku).await?))
}

/// Returns a product, or the refusal of a request for one that does not exist.
pub(crate) async fn offer(store: &Store, sku: &Sku) -> Result<Offer, Problem> {
    let unknown =
        || Problem::new(StatusCode::NOT_FOUND, "unknown-product", format!("there is no product `{sku}`"));
    store.offer(sku).await?.ok_or_else(unknown)
}
