//! Stock and orders in SQLite. Every shop opens the database for itself, as a process of its own would.

mod audit;
mod error;
mod fenced;
mod unfenced;

pub use error::StoreError;
pub use fenced::{Read, Written};

use crate::domain::{Catalogue, Order, Quantity, Sku};
use sqlx::{
    SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{path::Path, time::Duration};

/// One shop's connection to the database. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Store {
    pool: SqlitePool,
}

/// Takes the write lock at once: a transaction that begins with a read and writes later could be refused in
/// its middle.
const BEGIN: &str = "BEGIN IMMEDIATE";

impl Store {
    /// Creates the database at `path` and fills it with the catalogue.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be created, or there is one with products already.
    pub async fn create(path: &Path, catalogue: &Catalogue) -> Result<Self, StoreError> {
        let store = Self::connect(options(path).create_if_missing(true)).await?;
        sqlx::migrate!().run(&store.pool).await.map_err(StoreError::of("create the tables"))?;
        store.fill(catalogue).await.map_err(StoreError::of("fill the stock"))?;
        Ok(store)
    }

    /// Opens the database at `path` that [`create`](Self::create) made.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be opened.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::connect(options(path)).await
    }

    async fn connect(options: SqliteConnectOptions) -> Result<Self, StoreError> {
        // One connection: SQLite has one writer at a time, and nearly everything here writes.
        let pool =
            SqlitePoolOptions::new().max_connections(1).acquire_timeout(PATIENCE).connect_with(options);
        Ok(Self { pool: pool.await.map_err(StoreError::of("open the database"))? })
    }

    async fn fill(&self, catalogue: &Catalogue) -> Result<(), sqlx::Error> {
        let mut tx = self.pool.begin_with(BEGIN).await?;
        for product in catalogue.products() {
            sqlx::query("insert into sku (id, title, category, price_cents, stock) values (?, ?, ?, ?, ?)")
                .bind(product.sku.as_str())
                .bind(&product.title)
                .bind(&product.category)
                .bind(product.price.get())
                .bind(product.stock.get())
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await
    }

    /// Closes the connection.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// How long a statement or a task waits for its turn; a whole crowd may be before it.
const PATIENCE: Duration = Duration::from_secs(60);

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(PATIENCE)
}

async fn record(
    tx: &mut SqliteConnection,
    order: &Order,
    shop: &str,
    token: Option<i64>,
) -> Result<(), sqlx::Error> {
    sqlx::query("insert into orders (number, sku, quantity, cents, shop, token) values (?, ?, ?, ?, ?, ?)")
        .bind(order.number.get())
        .bind(order.sku.as_str())
        .bind(order.quantity.get())
        .bind(i64::try_from(order.cents).unwrap_or(i64::MAX))
        .bind(shop)
        .bind(token)
        .execute(tx)
        .await?;
    Ok(())
}

fn quantity(sku: &Sku, stock: i64) -> Result<Quantity, StoreError> {
    let pieces = u32::try_from(stock).map_err(|_| StoreError::NoQuantity { sku: sku.clone(), stock })?;
    Ok(Quantity::new(pieces))
}
