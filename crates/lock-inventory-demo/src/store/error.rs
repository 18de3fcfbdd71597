//! The errors of the store.

use crate::domain::Sku;

/// The store did not do what it was asked. Unless a commit failed, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The text is no address of a database.
    #[error(
        "the address of the database is not usable: write `sqlite:///path/to/shop.sqlite` or \
         `postgres://user:password@host/database`"
    )]
    Address,
    /// The database failed.
    #[error("could not {attempted}")]
    Database {
        /// The attempted action.
        attempted: &'static str,
        /// The cause.
        source: sqlx::Error,
    },
    /// The migrations failed.
    #[error("could not create the tables: give a database of this version of the program, or an empty one")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// There is no such product.
    #[error("the store has no product {sku}: restart the shop after a change of the catalogue")]
    NoProduct {
        /// Its code.
        sku: Sku,
    },
    /// A stored value is not of its kind.
    #[error("the column `{column}` has {value:?}, which is not valid: repair the row by hand")]
    Invalid {
        /// The column.
        column: &'static str,
        /// The value.
        value: String,
    },
    /// The strategy needs another database.
    #[error("`units` needs rows that are locked one by one: give a PostgreSQL to --database")]
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
