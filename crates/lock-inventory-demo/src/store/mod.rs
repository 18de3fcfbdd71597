//! Stock, orders and reservations in SQLite or PostgreSQL. sqlx's `Any` driver allows the same statements for both.

mod audit;
mod dialect;
mod error;
mod fenced;
mod held_row;
mod job_runs;
mod orders;
mod products;
mod reservations;
mod restocks;
mod setup;
mod unfenced;
mod units;

pub use dialect::DatabaseUrl;
pub use error::StoreError;
pub use fenced::Read;
pub use held_row::HeldRow;
pub use job_runs::JobRun;
pub use orders::{Entry, Written};
pub use products::ProductRow;
pub use reservations::Reserved;
pub use restocks::Changed;
pub use units::HeldUnits;

use dialect::Dialect;
use sqlx::{Any, AnyPool, Transaction};

/// A shop's connections to its database. Clones share them.
#[derive(Debug, Clone)]
pub struct Store {
    pool: AnyPool,
    dialect: Dialect,
}

type Tx = Transaction<'static, Any>;

impl Store {
    /// Connects to the database. Creates a missing SQLite file.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] if connecting fails.
    ///
    /// # Cancel safety
    /// Dropping this closes the connections.
    pub async fn open(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let pool = url.connect().await.map_err(StoreError::of("open the database"))?;
        Ok(Self { pool, dialect: url.dialect })
    }

    /// Checks that the database responds.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] if it does not respond.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let answer = sqlx::query("select 1").execute(&self.pool).await;
        answer.map(drop).map_err(StoreError::of("reach the database"))
    }

    /// Closes all connections after the current statements have completed.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    async fn begin(&self) -> Result<Tx, sqlx::Error> {
        self.pool.begin_with(self.dialect.begin()).await
    }
}
