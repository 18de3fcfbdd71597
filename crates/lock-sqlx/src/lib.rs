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
//! // let url = "sqlite:locks.db";
//! let locks = LockFactory::new(SqliteBackend::connect(&url).await?);
//! let guard = locks.named("stock:42")?.acquire().await?;
//! println!("{:?}", guard.release().await); // no `?`: the work is done even if the release is not confirmed
//! # Ok(()) }
//! # #[cfg(not(feature = "sqlite"))] fn main() {}
//! ```
//!
//! [`SqliteBackend`] stores locks in a file: they exclude the processes of one machine, without a server.
//!
//! # Features
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `sqlite` | off | [`SqliteBackend`], with a copy of SQLite that is built with this crate (with the system's, if the build has `LIBSQLITE3_SYS_USE_PKG_CONFIG=1` in its environment) |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "sqlite")]
pub use sqlite::{FenceError, Sqlite, SqliteBackend};

/// The examples of the README.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;
