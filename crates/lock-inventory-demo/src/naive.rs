//! The same shop without a lock: **the one wrong version**. It reads the stock, takes the payment and writes what is
//! left, while others do the same. Nothing here is a strange mistake; alone, it works.

use crate::{
    Shop, catalogue,
    domain::{NewOrder, Order},
    orders::{admit, authenticated, sold},
    payments::Charge,
    problem::Problem,
    store::{self, Store, StoreError},
};
use axum::{
    Extension, Router,
    body::Body,
    extract::State,
    http::{Response, StatusCode},
    middleware,
    routing::post,
};

/// Returns the routes of the customers, with the naive route of orders.
pub fn router(shop: &Shop) -> Router {
    let order = post(order)
        .route_layer(middleware::from_fn_with_state(shop.clone(), admit))
        .route_layer(middleware::from_fn(authenticated));
    crate::routes(shop, order)
}

async fn order(
    State(shop): State<Shop>,
    Extension(order): Extension<NewOrder>,
) -> Result<Response<Body>, Problem> {
    let NewOrder { key, sku, quantity, .. } = order;
    let offer = catalogue::offer(&shop.store, &sku).await?; // read
    let left = offer.stock - quantity.get();
    if left < 0 {
        return Err(Problem::new(StatusCode::CONFLICT, "sold-out", "the units are gone"));
    }
    let cents = offer.price_cents.times(quantity);
    let charge = shop.payments.charge(&key, cents).await; // pay
    if charge.map_err(|error| Problem::unavailable("payment", &error))? != Charge::Charged {
        return Err(Problem::new(StatusCode::PAYMENT_REQUIRED, "declined", "the payment was declined"));
    }
    let order = Order { key, sku, quantity, cents, number: 0, token: None };
    let order = write(&shop.store, order, left).await; // write
    Ok(sold(StatusCode::CREATED, &order.map_err(StoreError::from)?).map(Body::from))
}

async fn write(store: &Store, mut order: Order, left: i64) -> Result<Order, sqlx::Error> {
    let mut tx = store.database().begin().await?;
    if let Some(before) = store::order(&mut tx, &order.key).await? {
        return Ok(before); // the request is a repeat
    }
    let update = "update products set stock = $2, sales = sales + 1 where sku = $1 returning sales";
    order.number = sqlx::query_scalar(update).bind(&order.sku).bind(left).fetch_one(&mut *tx).await?;
    store::insert_order(&mut tx, &order).await?;
    tx.commit().await?;
    Ok(order)
}
