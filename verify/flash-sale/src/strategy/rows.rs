//! The statements of the strategies, on the shop's tables. Each order is written together with the answer to its request.

use super::{Sale, SaleError, sell::Fence};
use axum::{
    body::Bytes,
    http::{Response, StatusCode, header},
};
use distlock::{FencingToken, tower::idempotency::AnyIdempotencyStore};
use lock_inventory_demo::{
    database::Tx,
    domain::{Cents, Order, now},
    fenced::StockLevel,
    store::{Store, StoreError},
};
use serde_json::json;

/// Time for which `conditional` keeps its units if the shop dies during the payment, in seconds.
const KEPT_FOR: i64 = 60;

/// Reads the product. Nothing keeps others from writing afterwards.
pub(super) async fn read(sale: &Sale) -> Result<StockLevel, SaleError> {
    let level = sqlx::query_as("select stock, price_cents from products where sku = $1");
    Ok(level.bind(&sale.order.sku).fetch_one(sale.shop.store.pool()).await?)
}

/// Overwrites the stock with `left`, and writes the order. With [`Fence::OnWrite`], returns `None` and writes nothing if a
/// newer holder has *written*: its read left no trace.
pub(super) async fn write(
    sale: &Sale,
    left: i64,
    cents: Cents,
    fence: Fence,
) -> Result<Option<Response<Bytes>>, SaleError> {
    let mut tx = sale.shop.store.begin().await?;
    let update = match fence {
        Fence::None => sqlx::query_scalar(
            "update products set stock = $2, sales = sales + 1 where sku = $1 returning sales",
        )
        .bind(&sale.order.sku)
        .bind(left),
        Fence::OnWrite => sqlx::query_scalar(
            "update products set stock = $2, sales = sales + 1, fence = $3 where sku = $1 and fence <= $3 \
             returning sales",
        )
        .bind(&sale.order.sku)
        .bind(left)
        .bind(sale.token.map(FencingToken::as_i64)),
    };
    let number = update.fetch_optional(&mut *tx).await?;
    match number {
        Some(number) => finish(sale, tx, cents, number).await.map(Some),
        None => Ok(None),
    }
}

/// Deducts the units from whatever the stock is now, and writes the order.
pub(super) async fn sell_relative(
    sale: &Sale,
    mut tx: Tx,
    cents: Cents,
) -> Result<Response<Bytes>, SaleError> {
    let number = sqlx::query_scalar(
        "update products set stock = stock - $2, sales = sales + 1 where sku = $1 returning sales",
    );
    let number = number.bind(&sale.order.sku).bind(sale.order.quantity).fetch_one(&mut *tx).await?;
    finish(sale, tx, cents, number).await
}

/// Locks the product's row, as `select … for update` does, and reads it. An update of nothing does the same on SQLite.
pub(super) async fn lock_row(sale: &Sale) -> Result<(Tx, StockLevel), SaleError> {
    let mut tx = sale.shop.store.begin().await?;
    let level =
        sqlx::query_as("update products set stock = stock where sku = $1 returning stock, price_cents");
    let level = level.bind(&sale.order.sku).fetch_one(&mut *tx).await?;
    Ok((tx, level))
}

/// Takes the units as a reservation that is named like the order, and writes the intent. Returns the price, or `None` if
/// there are too few units.
pub(super) async fn take_with_intent(sale: &Sale) -> Result<Option<Cents>, SaleError> {
    let (order, now) = (&sale.order, now());
    let mut tx = sale.shop.store.begin().await?;
    let known = sqlx::query_scalar("select cents from intents where key = $1");
    if let Some(cents) = known.bind(&order.key).fetch_optional(&mut *tx).await? {
        return Ok(Some(cents)); // of an earlier attempt
    }
    let price: Option<Cents> = sqlx::query_scalar(
        "update products set stock = stock - $2 where sku = $1 and stock >= $2 returning price_cents",
    )
    .bind(&order.sku)
    .bind(order.quantity)
    .fetch_optional(&mut *tx)
    .await?;
    let Some(cents) = price.map(|price| price.times(order.quantity)) else { return Ok(None) };
    sqlx::query(
        "insert into reservations (id, sku, quantity, state, expires_at) values ($1, $2, $3, 'held', $4)",
    )
    .bind(&order.key)
    .bind(&order.sku)
    .bind(order.quantity)
    .bind(now + KEPT_FOR)
    .execute(&mut *tx)
    .await?;
    sqlx::query(
        "insert into intents (key, sku, quantity, cents, reservation, state, opened_at) \
         values ($1, $2, $3, $4, $1, 'open', $5)",
    )
    .bind(&order.key)
    .bind(&order.sku)
    .bind(order.quantity)
    .bind(cents)
    .bind(now)
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Some(cents))
}

/// Turns the reservation of [`take_with_intent`] into the order. Returns `None`, and writes nothing, if it has ended.
pub(super) async fn confirm(sale: &Sale, cents: Cents) -> Result<Option<Response<Bytes>>, SaleError> {
    let mut tx = sale.shop.store.begin().await?;
    // The product's row first, as in all transactions of the shop.
    let number = sqlx::query_scalar("update products set sales = sales + 1 where sku = $1 returning sales");
    let number = number.bind(&sale.order.sku).fetch_one(&mut *tx).await?;
    let held = sqlx::query("update reservations set state = 'ordered' where id = $1 and state = 'held'");
    if held.bind(sale.key()).execute(&mut *tx).await?.rows_affected() == 0 {
        return Ok(None);
    }
    let intent = sqlx::query("update intents set state = 'ordered' where key = $1");
    intent.bind(sale.key()).execute(&mut *tx).await?;
    finish(sale, tx, cents, number).await.map(Some)
}

/// Ends the intent of a declined payment.
pub(super) async fn decline(sale: &Sale) -> Result<(), SaleError> {
    let decline = sqlx::query("update intents set state = 'declined' where key = $1");
    decline.bind(sale.key()).execute(sale.shop.store.pool()).await?;
    Ok(())
}

/// Locks as many free units as the order needs, and marks them with its key. Returns `None` if there are too few that are
/// not locked by another transaction.
pub(super) async fn take_units(sale: &Sale) -> Result<Option<Tx>, SaleError> {
    let mut tx = sale.shop.store.begin().await?;
    let taken = sqlx::query(
        "update units set order_key = $1 where (sku, number) in (select sku, number from units where sku = $2 \
         and order_key is null order by number limit $3 for update skip locked)",
    )
    .bind(sale.key())
    .bind(&sale.order.sku)
    .bind(sale.order.quantity)
    .execute(&mut *tx)
    .await?;
    let is_enough = i64::try_from(taken.rows_affected()) == Ok(sale.order.quantity.get());
    Ok(is_enough.then_some(tx))
}

/// Creates the table of `units` with one row for each unit in stock, unless it exists. PostgreSQL only.
///
/// # Errors
/// Returns [`StoreError`] if the database fails.
///
/// # Cancel safety
/// Dropping this creates nothing.
pub async fn create_units(store: &Store) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    // Servers that start together would create it twice.
    sqlx::query("select pg_advisory_xact_lock(5070212)::text").execute(&mut *tx).await?;
    let create = "create table if not exists units (sku text not null references products (sku), \
                  number bigint not null, order_key text, primary key (sku, number))";
    sqlx::query(create).execute(&mut *tx).await?;
    let fill = "insert into units (sku, number) select sku, generate_series(1, stock) from products \
                on conflict do nothing";
    sqlx::query(fill).execute(&mut *tx).await?;
    Ok(tx.commit().await?)
}

/// Writes the order and its answer, and commits.
async fn finish(sale: &Sale, mut tx: Tx, cents: Cents, number: i64) -> Result<Response<Bytes>, SaleError> {
    let order = Order {
        key: sale.order.key.clone(),
        sku: sale.order.sku.clone(),
        quantity: sale.order.quantity,
        cents,
        number,
        token: sale.token.map(FencingToken::as_i64),
    };
    sqlx::query(
        "insert into orders (key, sku, quantity, cents, number, token) values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(&order.key)
    .bind(&order.sku)
    .bind(order.quantity)
    .bind(order.cents)
    .bind(order.number)
    .bind(order.token)
    .execute(&mut *tx)
    .await?;
    let mut answer = Response::new(Bytes::from(json!(order).to_string()));
    *answer.status_mut() = StatusCode::CREATED;
    let kind = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    AnyIdempotencyStore::complete_in(&mut tx, &sale.attempt, &answer).await?;
    tx.commit().await?;
    Ok(answer)
}
