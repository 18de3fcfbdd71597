//! Creation of the tables and the initial stock. Any number of shops can start with the same empty
//! database.

use super::{Store, StoreError, dialect::Dialect};
use crate::domain::{Catalogue, Product};
use sqlx::AnyConnection;

/// The statement that acquires the advisory lock for setting up a PostgreSQL database.
const SETUP_LOCK: &str = "select pg_advisory_xact_lock(5070212)::text";

impl Store {
    /// Creates the tables, and fills an empty stock from the catalogue. Existing products are not
    /// changed.
    ///
    /// # Errors
    /// Returns [`StoreError::Migrate`] if the migrations fail, for example on a database from
    /// another version, and [`StoreError::Database`] if another step fails.
    ///
    /// # Cancel safety
    /// Dropping this changes nothing.
    pub async fn set_up(&self, catalogue: &Catalogue) -> Result<(), StoreError> {
        let failed = || StoreError::of("fill the stock");
        // One transaction covers the whole setup. On SQLite it also excludes other shops, which
        // sqlx's migrations do not.
        let mut tx = self.begin().await.map_err(StoreError::of("set up the database"))?;
        if self.dialect == Dialect::Postgres {
            sqlx::query(SETUP_LOCK).execute(&mut *tx).await.map_err(StoreError::of("set up the database"))?;
        }
        self.dialect.migrator().run_direct(None, &mut *tx, false).await?;
        let products: i64 =
            sqlx::query_scalar("select count(*) from sku").fetch_one(&mut *tx).await.map_err(failed())?;
        if products == 0 {
            for product in catalogue.products() {
                insert(&mut tx, product).await.map_err(failed())?;
            }
            if self.dialect == Dialect::Postgres {
                sqlx::query("insert into units (sku) select id from sku, generate_series(1, initial)")
                    .execute(&mut *tx)
                    .await
                    .map_err(failed())?;
            }
        }
        tx.commit().await.map_err(failed())
    }
}

async fn insert(connection: &mut AnyConnection, product: &Product) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into sku (id, title, category, price_cents, initial, stock) values ($1, $2, $3, $4, $5, $5)",
    )
    .bind(product.sku.as_str())
    .bind(&product.title)
    .bind(&product.category)
    .bind(i64::from(product.price.get()))
    .bind(i64::from(product.stock.get()))
    .execute(connection)
    .await?;
    Ok(())
}
