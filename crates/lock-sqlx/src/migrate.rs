//! The tables of a database.

use lock_core::LockError;

/// Creates the tables of locks in a PostgreSQL, MariaDB or MySQL database, and the schema of the URL, unless they exist. In
/// a database of an earlier version of this crate, it creates the tables that are missing.
///
/// The user of the URL needs the right to create them, and a direct connection: not one through a pooler. The users that
/// take locks need the rights to select, insert, update and delete on `distlock_lock`, `distlock_fence` and `distlock_card`,
/// in PostgreSQL on `distlock_run` and (for semaphores, read-write locks and fair locks) `distlock_pool` as well, and to
/// select on `distlock_meta`. Programs may call it at the same time.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
/// lock_sqlx::migrate("postgres://owner@localhost/shop?schema=locks").await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// - [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL cannot be used;
/// - [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) or
///   [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) if the server refuses it or is not reached.
///
/// # Cancel safety
/// Cancel safe. In PostgreSQL, the tables are created together or not at all; in MySQL, the next call creates the others.
pub async fn migrate(url: &str) -> Result<(), LockError> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    match scheme.as_str() {
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => crate::mysql::migrate(url).await,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => crate::postgres::migrate(url).await,
        #[cfg(not(feature = "mysql"))]
        "mysql" | "mariadb" => {
            Err(LockError::invalid_url("MySQL is not built in: enable the feature `mysql`"))
        }
        #[cfg(not(feature = "postgres"))]
        "postgres" | "postgresql" => {
            Err(LockError::invalid_url("PostgreSQL is not built in: enable the feature `postgres`"))
        }
        _ => Err(LockError::invalid_url(
            "only PostgreSQL, MariaDB and MySQL need it: write it as `postgres://…` or `mysql://…`",
        )),
    }
}
