//! The tables of a database.

use lock_core::LockError;

/// Creates the tables of locks in a PostgreSQL, MariaDB or MySQL database, and the schema of the URL, unless they exist.
///
/// The user of the URL needs the right to create them, and a direct connection: not one through a pooler. The users that
/// take locks need the rights to select, insert, update and delete on `distlock_lock`, `distlock_fence` and `distlock_card`,
/// in PostgreSQL on `distlock_run` as well, and to select on `distlock_meta`. Programs may call it at the same time.
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
    #[cfg(all(feature = "mysql", feature = "postgres"))]
    return match crate::mysql::Place::is_of(url) {
        true => crate::mysql::migrate(url).await,
        false => crate::postgres::migrate(url).await,
    };
    #[cfg(all(feature = "mysql", not(feature = "postgres")))]
    return crate::mysql::migrate(url).await;
    #[cfg(all(feature = "postgres", not(feature = "mysql")))]
    return crate::postgres::migrate(url).await;
}
