//! A database, SQLite or PostgreSQL. This file contains all differences between the two; every other statement is the
//! same.

use sqlx::{Any, AnyConnection, AnyPool, Executor, Transaction, any::AnyPoolOptions, migrate::Migrator};
use std::time::Duration;

/// Time limit for obtaining a connection, and for closing all of them. By default, sqlx waits for 30 s and for ever,
/// which is longer than a lock is held.
const PATIENCE: Duration = Duration::from_secs(5);

/// A transaction of either database. Dropping it rolls it back.
pub type Tx = Transaction<'static, Any>;

/// The connections to one database. Clones share them.
#[derive(Debug, Clone)]
pub struct Database {
    pool: AnyPool,
    dialect: Dialect,
}

#[derive(Debug, Clone, Copy)]
enum Dialect {
    Sqlite,
    Postgres,
}

/// The error of a database.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The address names no database that this program can use.
    #[error(
        "the database address is not supported: use sqlite://file, or postgres://… with the feature `servers`"
    )]
    Address,
    /// The tables could not be created.
    #[error("the tables could not be created: is the database used by another program or version?")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The database does not answer, or it refused a statement.
    #[error("the database failed: repeat the request with the same key")]
    Failed(#[from] sqlx::Error),
}

impl Database {
    /// Connects, and creates the tables that are missing. Several processes can do this at the same time.
    ///
    /// # Errors
    /// Returns [`DatabaseError`] if the address is not supported, or the database fails.
    ///
    /// # Cancel safety
    /// Dropping this closes the connections. Tables are created completely or not at all.
    pub async fn open(url: &str, tables: &Migrator) -> Result<Self, DatabaseError> {
        sqlx::any::install_default_drivers();
        let (dialect, url, connections) = match url.split_once(':').map(|(scheme, _)| scheme) {
            // SQLite has one writer at a time. With one connection, the statements of this process wait in order;
            // several connections would poll for the file's lock.
            Some("sqlite") if url.contains('?') => (Dialect::Sqlite, url.to_owned(), 1),
            Some("sqlite") => (Dialect::Sqlite, format!("{url}?mode=rwc"), 1),
            Some("postgres" | "postgresql") if cfg!(feature = "servers") => {
                (Dialect::Postgres, url.to_owned(), 20)
            }
            _ => return Err(DatabaseError::Address),
        };
        let options = AnyPoolOptions::new().acquire_timeout(PATIENCE).max_connections(connections);
        let options = options.after_connect(move |connection, _| Box::pin(prepare(connection, dialect)));
        let database = Self { pool: options.connect(&url).await?, dialect };
        match dialect {
            // On SQLite, sqlx does not keep other processes out while it creates the tables; a transaction does.
            Dialect::Sqlite => {
                let mut tx = database.begin().await?;
                tables.run_direct(None, &mut *tx, false).await?;
                tx.commit().await?;
            }
            Dialect::Postgres => tables.run(&database.pool).await?,
        }
        Ok(database)
    }

    /// Returns the connections.
    #[must_use]
    pub fn pool(&self) -> &AnyPool {
        &self.pool
    }

    /// Begins a transaction that writes. SQLite takes its write lock at once, because a transaction that begins with a
    /// read can fail at its first write.
    ///
    /// # Errors
    /// Returns [`sqlx::Error`] if the database does not answer.
    ///
    /// # Cancel safety
    /// Dropping this begins nothing.
    pub async fn begin(&self) -> Result<Tx, sqlx::Error> {
        let begin = match self.dialect {
            Dialect::Sqlite => "begin immediate",
            Dialect::Postgres => "begin",
        };
        self.pool.begin_with(begin).await
    }

    /// Begins a transaction that reads all tables as they are at one moment.
    ///
    /// # Errors
    /// Returns [`sqlx::Error`] if the database does not answer.
    ///
    /// # Cancel safety
    /// Dropping this begins nothing.
    pub async fn begin_snapshot(&self) -> Result<Tx, sqlx::Error> {
        let begin = match self.dialect {
            Dialect::Sqlite => "begin",
            Dialect::Postgres => "begin isolation level repeatable read read only",
        };
        self.pool.begin_with(begin).await
    }

    /// Closes the connections when the current statements have ended, or after 5 s: the database may be unreachable.
    ///
    /// # Cancel safety
    /// Dropping this leaves the connections to be closed with their last clone.
    pub async fn close(&self) {
        drop(tokio::time::timeout(PATIENCE, self.pool.close()).await);
    }
}

/// Prepares a connection.
async fn prepare(connection: &mut AnyConnection, dialect: Dialect) -> Result<(), sqlx::Error> {
    let settings = match dialect {
        // WAL lets others read during a write. With `normal`, a commit survives the death of a process; a shop on one
        // machine would use `full`, which also survives a power failure.
        Dialect::Sqlite => {
            "pragma busy_timeout = 5000; pragma journal_mode = wal; pragma synchronous = normal; pragma foreign_keys = on"
        }
        // A process that is suspended or unreachable in a transaction keeps its rows locked. After this time,
        // PostgreSQL rolls it back, so that others can sell the product.
        Dialect::Postgres => "set idle_in_transaction_session_timeout = 5000",
    };
    connection.execute(settings).await.map(drop)
}
