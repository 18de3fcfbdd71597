//! How a statement fails.

use crate::domain::Sku;

/// The store did not do what it was asked. Unless a commit failed, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database failed.
    #[error("could not {attempted}")]
    Database {
        /// What was attempted.
        attempted: &'static str,
        /// The cause.
        source: sqlx::Error,
    },
    /// There is no such product.
    #[error("the store has no product {sku}")]
    NoProduct {
        /// Its code.
        sku: Sku,
    },
    /// The stock is no number of pieces.
    #[error("the stock of {sku} is {stock}, which is no quantity")]
    NoQuantity {
        /// The product.
        sku: Sku,
        /// What is stored.
        stock: i64,
    },
}

impl StoreError {
    pub(super) fn of<E: Into<sqlx::Error>>(attempted: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Database { attempted, source: source.into() }
    }
}
