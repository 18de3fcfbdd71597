//! The store's errors.

use crate::domain::Sku;

/// A failure of the store. Unless a commit failed, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The text is not a valid database address.
    #[error(
        "invalid database address: use `sqlite:///path/to/shop.sqlite` or `postgres://user:password@host/database`"
    )]
    Address,
    /// A database operation failed.
    #[error("could not {attempted}")]
    Database {
        /// Attempted action.
        attempted: &'static str,
        /// Underlying error.
        source: sqlx::Error,
    },
    /// The migrations failed.
    #[error(
        "could not create the tables: use an empty database, or one created by this version of the program"
    )]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The product does not exist.
    #[error("unknown product {sku}: restart the shop after changing the catalogue")]
    NoProduct {
        /// Product code.
        sku: Sku,
    },
    /// A stored value is invalid.
    #[error("the column `{column}` has the invalid value {value:?}: repair the row by hand")]
    Invalid {
        /// Name of the column.
        column: &'static str,
        /// Stored value.
        value: String,
    },
    /// The strategy needs another database.
    #[error("`units` needs row locks: set --database to a PostgreSQL server")]
    NeedsPostgres,
}

impl StoreError {
    pub(super) fn of<E: Into<sqlx::Error>>(attempted: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Database { attempted, source: source.into() }
    }

    pub(super) fn invalid(column: &'static str, value: impl ToString) -> Self {
        Self::Invalid { column, value: value.to_string() }
    }
}
