//! The shop's tables, and the statements that need no lock. Those of a lock's holder are in [`fenced`](crate::fenced).

use crate::{
    database::{Database, DatabaseError, Tx},
    domain::{Cents, Order, OrderKey, Product, Quantity, Sku, now},
};
use distlock::tower::idempotency::{AnyIdempotencyStore, StoreError as RecordError};
use serde::Serialize;
use sqlx::{AnyConnection, AnyPool};
use std::time::Duration;

/// The shop's database. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Store {
    database: Database,
}

/// The error of a statement of the shop.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A newer attempt of the same order took over. Nothing was written.
    #[error("a newer attempt of this order took over: repeat the request with the same key")]
    Superseded,
    /// The answer could not be recorded.
    #[error("the answer could not be recorded: repeat the request with the same key")]
    Record(#[source] RecordError),
}

impl From<RecordError> for StoreError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Superseded => Self::Superseded,
            error => Self::Record(error),
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.into())
    }
}

/// A product as customers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct Offer {
    /// The code.
    pub sku: Sku,
    /// The title.
    pub title: String,
    /// The price of one unit.
    pub price_cents: Cents,
    /// The units that are left.
    pub stock: i64,
}

/// The end of a reservation without an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The customer gave it back.
    Cancelled,
    /// Its time passed.
    Expired,
}

/// The outcome of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// The units are held until this time, in seconds since 1970.
    Until(i64),
    /// There are not that many units left.
    SoldOut,
    /// The customer used the key for another reservation, or for one that has ended.
    KeyReused,
}

impl Store {
    /// Opens the database, and creates the tables that are missing.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database cannot be used.
    ///
    /// # Cancel safety
    /// Dropping this closes the connections.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let database = Database::open(url, &sqlx::migrate!("migrations/shop")).await?;
        let store = Self { database };
        store.records().create_table().await?;
        Ok(store)
    }

    /// Returns the connections.
    #[must_use]
    pub fn pool(&self) -> &AnyPool {
        self.database.pool()
    }

    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the store of the idempotency records, which are in the same database, so that one transaction writes an
    /// order and its answer.
    #[must_use]
    pub fn records(&self) -> AnyIdempotencyStore {
        AnyIdempotencyStore::new(self.pool().clone())
    }

    /// Begins a transaction that writes.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database does not answer.
    ///
    /// # Cancel safety
    /// Dropping this begins nothing.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        Ok(self.database.begin().await?)
    }

    /// Adds the products that are missing.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database fails.
    ///
    /// # Cancel safety
    /// Dropping this adds none of them.
    pub async fn set_up(&self, products: &[Product]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for product in products {
            let insert = "insert into products (sku, title, price_cents, initial, stock) values ($1, $2, $3, $4, $4) \
                          on conflict (sku) do nothing";
            let Product { sku, title, price, initial } = product;
            let insert = sqlx::query(insert).bind(sku).bind(title).bind(price).bind(initial);
            insert.execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Returns the products, sorted by their codes.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database fails.
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn offers(&self) -> Result<Vec<Offer>, StoreError> {
        let offers = sqlx::query_as("select sku, title, price_cents, stock from products order by sku");
        Ok(offers.fetch_all(self.pool()).await?)
    }

    /// Returns a product.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database fails.
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn offer(&self, sku: &Sku) -> Result<Option<Offer>, StoreError> {
        let offer = sqlx::query_as("select sku, title, price_cents, stock from products where sku = $1");
        Ok(offer.bind(sku).fetch_optional(self.pool()).await?)
    }

    /// Reserves units. No lock: one conditional statement on one row takes them or does not, and nothing outside of
    /// this database takes part. The name of the reservation is its primary key, so that a repeated request finds it.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database fails. Repeat the call.
    ///
    /// # Cancel safety
    /// Dropping this reserves the units or not. Repeat the call.
    pub async fn reserve(
        &self,
        id: &OrderKey,
        sku: &Sku,
        quantity: Quantity,
        life: Duration,
    ) -> Result<Reserved, StoreError> {
        let mut tx = self.begin().await?;
        // The product's row first: a repeat that waits for it must then find the reservation of the first request.
        let take = "update products set stock = stock - $2 where sku = $1 and stock >= $2";
        let taken = sqlx::query(take).bind(sku).bind(quantity).execute(&mut *tx).await?;
        let known = "select sku, quantity, state, expires_at from reservations where id = $1";
        let known: Option<(Sku, Quantity, String, i64)> =
            sqlx::query_as(known).bind(id).fetch_optional(&mut *tx).await?;
        match known {
            Some((of, units, state, until)) if (&of, units, &*state) == (sku, quantity, "held") => {
                return Ok(Reserved::Until(until));
            }
            Some(_) => return Ok(Reserved::KeyReused),
            None if taken.rows_affected() == 0 => return Ok(Reserved::SoldOut),
            None => {}
        }
        let until = now().saturating_add(i64::try_from(life.as_secs()).unwrap_or(i64::MAX));
        let hold =
            "insert into reservations (id, sku, quantity, state, expires_at) values ($1, $2, $3, 'held', $4)";
        sqlx::query(hold).bind(id).bind(sku).bind(quantity).bind(until).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(Reserved::Until(until))
    }

    /// Returns the reservations whose time has passed.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database fails.
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn reservations_due(&self) -> Result<Vec<OrderKey>, StoreError> {
        let due = sqlx::query_scalar("select id from reservations where state = 'held' and expires_at <= $1");
        Ok(due.bind(now()).fetch_all(self.pool()).await?)
    }

    /// Gives the units of a reservation back, unless an order or an earlier call ended it. Returns `true` if it was
    /// held.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database fails. Repeat the call.
    ///
    /// # Cancel safety
    /// Dropping this ends the reservation or not. Repeat the call.
    pub async fn end_reservation(&self, id: &OrderKey, end: End) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        // The product's row first, as in all transactions: two that lock rows in different orders can wait for each
        // other.
        let give_back = "update products set stock = stock + (select quantity from reservations where id = $1) \
                         where sku = (select sku from reservations where id = $1)";
        sqlx::query(give_back).bind(id).execute(&mut *tx).await?;
        let word = match end {
            End::Cancelled => "cancelled",
            End::Expired => "expired",
        };
        let update = "update reservations set state = $2 where id = $1 and state = 'held'";
        let ended = sqlx::query(update).bind(id).bind(word).execute(&mut *tx).await?;
        if ended.rows_affected() == 0 {
            return Ok(false); // rolls back
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Adds units to the stock, once for each run.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database fails. Repeat the call.
    ///
    /// # Cancel safety
    /// Dropping this adds the units or not. Repeat the call.
    pub async fn restock(&self, sku: &Sku, run: &str, quantity: Quantity) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let first =
            "insert into restocks (sku, run, quantity) values ($1, $2, $3) on conflict (sku, run) do nothing";
        let first = sqlx::query(first).bind(sku).bind(run).bind(quantity).execute(&mut *tx).await?;
        if first.rows_affected() == 1 {
            let add = "update products set stock = stock + $2 where sku = $1";
            sqlx::query(add).bind(sku).bind(quantity).execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Returns the intents that have been open for longer than this, in random order, so that some whose payments
    /// always fail do not keep the others waiting for ever.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database fails.
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn open_intents(&self, older_than: Duration) -> Result<Vec<(OrderKey, Sku)>, StoreError> {
        let opened_by = now().saturating_sub(i64::try_from(older_than.as_secs()).unwrap_or(i64::MAX));
        let open = "select key, sku from intents where state in ('open', 'refunding') and opened_at <= $1 \
                    order by random()";
        Ok(sqlx::query_as(open).bind(opened_by).fetch_all(self.pool()).await?)
    }
}

/// Returns an order.
pub(crate) async fn order(
    connection: &mut AnyConnection,
    key: &OrderKey,
) -> Result<Option<Order>, sqlx::Error> {
    let order = "select key, sku, quantity, cents, number, token from orders where key = $1";
    sqlx::query_as(order).bind(key).fetch_optional(connection).await
}

/// Writes an order.
pub(crate) async fn insert_order(connection: &mut AnyConnection, order: &Order) -> Result<(), sqlx::Error> {
    let insert =
        "insert into orders (key, sku, quantity, cents, number, token) values ($1, $2, $3, $4, $5, $6)";
    let Order { key, sku, quantity, cents, number, token } = order;
    let insert = sqlx::query(insert).bind(key).bind(sku).bind(quantity).bind(cents).bind(number).bind(token);
    insert.execute(connection).await?;
    Ok(())
}
