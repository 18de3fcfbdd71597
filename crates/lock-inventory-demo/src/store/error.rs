//! How a statement fails.

use crate::domain::Sku;
use std::{error::Error, fmt};

/// The store did not do what it was asked. Unless a commit failed, nothing was written.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The database failed.
    Database {
        /// What was attempted.
        attempted: &'static str,
        /// The cause.
        source: sqlx::Error,
    },
    /// There is no such product.
    NoProduct {
        /// Its code.
        sku: Sku,
    },
    /// The stock is no number of pieces.
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

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database { attempted, .. } => write!(f, "could not {attempted}"),
            Self::NoProduct { sku } => write!(f, "the store has no product {sku}"),
            Self::NoQuantity { sku, stock } => {
                write!(f, "the stock of {sku} is {stock}, which is no quantity")
            }
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Database { source, .. } => Some(source),
            Self::NoProduct { .. } | Self::NoQuantity { .. } => None,
        }
    }
}
