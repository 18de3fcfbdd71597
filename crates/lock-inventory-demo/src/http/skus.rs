//! `GET /skus` and `GET /skus/{sku}`.

use super::{App, extract::Listed, problem::Problem};
use crate::store::ProductRow;
use axum::{Json, extract::State};

pub(super) async fn list(State(shop): State<App>) -> Result<Json<Vec<ProductRow>>, Problem> {
    Ok(Json(shop.store().products().await?))
}

pub(super) async fn one(State(shop): State<App>, listed: Listed) -> Result<Json<ProductRow>, Problem> {
    Ok(Json(shop.store().product(&listed.sku).await?))
}
