//! Locks for [`lock_core`] in a database, through `sqlx`.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::LockFactory;
//! use lock_sqlx::SqliteBackend;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let url = format!("sqlite:{}", folder.path().join("locks.db").display());
//! // let url = "sqlite:/var/lib/shop/locks.db";
//! let locks = LockFactory::new(SqliteBackend::connect(&url).await?);
//! let guard = locks.named("stock:42")?.acquire().await?;
//! println!("{:?}", guard.release().await); // no `?`: the work is done even if the release is not confirmed
//! # Ok(()) }
//! # #[cfg(not(feature = "sqlite"))] fn main() {}
//! ```
//!
//! [`SqliteBackend`] stores locks in a file: they exclude the processes of one machine, without a server.
//! [`PostgresBackend`] stores them in a PostgreSQL database, [`MySqlBackend`] in one of MariaDB (or MySQL 8.0, untested). A
//! [`fence`](fence()) at the end of a transaction of the application makes it fail unless the hold is still the newest one.
//! The first two keep semaphores, read-write locks and fair locks, and the records of a scheduler's jobs as well.
//! [`finish_in`] commits the success of a run together with its effect.
//!
//! # Features
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `mysql` | off | [`MySqlBackend`]; for TLS, the program enables a `tls-…` feature of sqlx, and to log in to MySQL 8 without it, `mysql-rsa` |
//! | `postgres` | off | [`PostgresBackend`]; for TLS, the program enables a `tls-…` feature of sqlx |
//! | `sqlite` | off | [`SqliteBackend`], with a copy of SQLite that is built with this crate (with the system's, if the build has `LIBSQLITE3_SYS_USE_PKG_CONFIG=1` in its environment) |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod columns;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod connections;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod fence;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod finish;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod migrate;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod pools;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod renewals;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod retention;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use fence::{FenceError, FencedTransaction, fence};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use finish::{JobTransaction, finish_in};
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use migrate::migrate;
#[cfg(feature = "mysql")]
pub use mysql::{MySql, MySqlBackend};
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresBackend};
#[cfg(feature = "sqlite")]
pub use sqlite::{Sqlite, SqliteBackend};

/// The examples of the README.
#[cfg(all(doctest, feature = "postgres", feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;
