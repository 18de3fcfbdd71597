//! The differences between SQLite and PostgreSQL. All other statements are identical.

use super::StoreError;
use sqlx::{AnyConnection, AnyPool, Executor, any::AnyPoolOptions, migrate::Migrator};
use std::{fmt, path::Path, str::FromStr, time::Duration};
use url::Url;

/// Time limit for obtaining a connection, and for acquiring SQLite's database lock.
const PATIENCE: Duration = Duration::from_secs(30);

/// The address of a database. `Display` and `Debug` do not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    url: Url,
    pub(super) dialect: Dialect,
}

/// The kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");

impl DatabaseUrl {
    /// Returns the address of the SQLite database in `file`.
    ///
    /// # Errors
    /// Returns [`StoreError::Address`] for a path that is not absolute.
    pub fn sqlite(file: &Path) -> Result<Self, StoreError> {
        let url = Url::from_file_path(file).map_err(|()| StoreError::Address)?;
        format!("sqlite://{}", url.path()).parse()
    }

    /// Returns the address with its password, for the environment of a child process.
    #[must_use]
    pub fn reveal(&self) -> &str {
        self.url.as_str()
    }

    pub(super) async fn connect(&self) -> Result<AnyPool, sqlx::Error> {
        sqlx::any::install_default_drivers();
        let (mut url, options) = (self.url.clone(), AnyPoolOptions::new().acquire_timeout(PATIENCE));
        let options = match self.dialect {
            // SQLite allows one writer, and nearly every statement writes. Several connections in
            // one process would poll for the file lock with pauses of up to 100 ms. With one
            // connection, the pool serves statements in order.
            Dialect::Sqlite => {
                if !url.query_pairs().any(|(name, _)| name == "mode") {
                    url.query_pairs_mut().append_pair("mode", "rwc");
                }
                options.max_connections(1).after_connect(|connection, _| Box::pin(prepare(connection)))
            }
            // Four shops stay below PostgreSQL's default limit of 100 connections.
            Dialect::Postgres => options.max_connections(20),
        };
        options.connect(url.as_str()).await
    }
}

/// Sets up a SQLite connection. WAL allows reads during a write. With `normal`, a commit survives a
/// process crash, but a power failure can lose the latest commits. A real shop would set `full`.
async fn prepare(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    connection.execute("pragma busy_timeout = 30000").await?;
    connection.execute("pragma journal_mode = wal").await?;
    connection.execute("pragma synchronous = normal").await?;
    connection.execute("pragma foreign_keys = on").await?;
    Ok(())
}

impl Dialect {
    pub(super) fn migrator(self) -> &'static Migrator {
        match self {
            Self::Sqlite => &SQLITE,
            Self::Postgres => &POSTGRES,
        }
    }

    /// Returns the statement that begins a write transaction. SQLite acquires its write lock
    /// immediately, because a transaction that begins with a read could fail at its first write.
    pub(super) fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => "begin immediate",
            Self::Postgres => "begin",
        }
    }

    /// Returns the statement that begins a transaction with a consistent snapshot of all tables.
    pub(super) fn begin_snapshot(self) -> &'static str {
        match self {
            Self::Sqlite => "begin",
            Self::Postgres => "begin isolation level repeatable read read only",
        }
    }

    /// Returns the query that reads the stock for a write in the same transaction. On SQLite, the transaction has
    /// already locked the whole database.
    pub(super) fn select_for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "select stock from sku where id = $1",
            Self::Postgres => "select stock from sku where id = $1 for update",
        }
    }
}

impl FromStr for DatabaseUrl {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let url = Url::parse(text).map_err(|_| StoreError::Address)?;
        let dialect = match url.scheme() {
            "sqlite" if url.path().len() > 1 => Dialect::Sqlite,
            "postgres" | "postgresql" if url.has_host() || url.query().is_some() => Dialect::Postgres,
            _ => return Err(StoreError::Address),
        };
        Ok(Self { url, dialect })
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, dialect } = self;
        match dialect {
            Dialect::Sqlite => write!(f, "SQLite at {}", url.path()),
            Dialect::Postgres => {
                write!(
                    f,
                    "PostgreSQL at {}:{}",
                    url.host_str().unwrap_or("a socket"),
                    url.port().unwrap_or(5432)
                )
            }
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_shows_the_location_without_secrets() {
        for (text, place) in [
            ("sqlite:///var/lib/shop.sqlite", "SQLite at /var/lib/shop.sqlite"),
            ("postgres://shop:s3cret@db/shop", "PostgreSQL at db:5432"),
            ("postgresql://shop:s3cret@10.0.0.7:6000/shop", "PostgreSQL at 10.0.0.7:6000"),
        ] {
            let url: DatabaseUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), place);
            assert!(!format!("{url:?}").contains("s3cret"));
            assert_eq!(url.reveal(), text);
        }
        for text in ["", "shop.sqlite", "mysql://db/shop", "sqlite://", "postgres:"] {
            assert!(matches!(text.parse::<DatabaseUrl>(), Err(StoreError::Address)), "{text}");
        }
    }
}
