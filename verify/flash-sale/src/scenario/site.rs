//! A run's servers (Redis and the databases), and the directory for all of its files.

use crate::{
    addresses::{DatabaseUrl, Databases, InvalidDatabase, LocksUrl},
    redis::{PrivateRedis, PrivateRedisError, RedisConnection},
};
use distlock::{LockError, backend::ProcessId, fred::fred};
use lock_testkit::PostgresServer;
use sqlx::{AnyConnection, Connection};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use url::Url;

/// The servers for a run.
#[derive(Debug, Clone)]
pub struct SitePlan {
    /// Path of the shop program.
    pub program: PathBuf,
    /// Address of an existing Redis server; `None` to start a private one.
    pub redis: Option<LocksUrl>,
    /// Databases for the scenarios.
    pub database: DatabasePlan,
}

/// The databases for a run. Each scenario has a separate database.
#[derive(Debug, Clone)]
pub enum DatabasePlan {
    /// SQLite files.
    Sqlite,
    /// Databases on a private PostgreSQL server.
    PrivatePostgres,
    /// Databases on this PostgreSQL server, created and dropped by the run. The user needs
    /// permission to create databases.
    Postgres(DatabaseUrl),
}

/// The running servers. Dropping this stops everything that was started.
#[derive(Debug)]
pub struct Site {
    pub(super) program: PathBuf,
    redis: LocksUrl,
    pub(super) private_redis: Option<PrivateRedis>,
    at: DatabasesAt,
    id: String,
    // This must be the last field, because the others use files in this directory.
    directory: TempDir,
}

#[derive(Debug)]
enum DatabasesAt {
    Sqlite,
    Postgres { server: Option<Box<PostgresServer>>, url: Url, created: Mutex<Vec<String>> },
}

/// An error while starting or using a run's servers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// The private Redis server did not start.
    #[error(transparent)]
    NoRedis(#[from] PrivateRedisError),
    /// The Redis URL is invalid.
    #[error("invalid Redis URL")]
    RedisUrl(#[from] LockError),
    /// Redis did not respond.
    #[error("could not reach Redis")]
    Redis(#[from] fred::error::Error),
    /// The private PostgreSQL server did not start.
    #[error("could not start PostgreSQL; --database takes the address of a running server")]
    Postgres(#[source] io::Error),
    /// The database refused an operation.
    #[error(
        "could not {attempted} a database: check that the server responds and that the user may create databases"
    )]
    Database {
        /// Attempted operation.
        attempted: &'static str,
        /// Underlying error.
        source: sqlx::Error,
    },
    /// The address of a created database is invalid.
    #[error("could not name a database of the run")]
    Address(#[from] InvalidDatabase),
    /// The directory could not be used.
    #[error("could not create or use the run directory")]
    Directory(#[from] io::Error),
}

impl Site {
    /// Starts the private servers of `plan`.
    ///
    /// # Errors
    /// Returns [`SiteError`] if a program is missing or a server does not start.
    ///
    /// # Cancel safety
    /// Dropping this stops everything that was started.
    pub async fn open(plan: SitePlan) -> Result<Self, SiteError> {
        let directory = tempfile::Builder::new().prefix("flash-sale-").tempdir()?;
        let (redis, private_redis) = match plan.redis {
            Some(url) => (url, None),
            None => {
                let server = PrivateRedis::start().await?;
                (server.url().parse()?, Some(server))
            }
        };
        let at = match plan.database {
            DatabasePlan::Sqlite => DatabasesAt::Sqlite,
            DatabasePlan::PrivatePostgres => {
                let server = spawn_blocking(PostgresServer::try_start).await;
                let server = server.map_err(io::Error::other).flatten().map_err(SiteError::Postgres)?;
                let url = Url::parse(&server.url()).map_err(io::Error::other)?;
                DatabasesAt::Postgres { server: Some(Box::new(server)), url, created: Mutex::default() }
            }
            DatabasePlan::Postgres(url) => {
                let url = Url::parse(url.reveal()).map_err(io::Error::other)?;
                DatabasesAt::Postgres { server: None, url, created: Mutex::default() }
            }
        };
        let id = ProcessId::random().to_string();
        Ok(Self { program: plan.program, redis, private_redis, at, id, directory })
    }

    /// Returns `true` if the databases are on PostgreSQL.
    #[must_use]
    pub fn is_postgres(&self) -> bool {
        matches!(self.at, DatabasesAt::Postgres { .. })
    }

    /// Returns the Redis URL with its password, for the shops' environment.
    pub(super) fn redis_url(&self) -> &str {
        self.redis.reveal().unwrap_or("memory")
    }

    /// Returns the Redis version, for the report's footer.
    pub(super) async fn redis_version(&self) -> Result<String, SiteError> {
        let version = RedisConnection::connect(self.redis_url()).await?.version().await?;
        Ok(match self.private_redis {
            Some(_) => format!("Redis {version} (private, without persistence)"),
            None => format!("Redis {version}"),
        })
    }

    /// Returns the prefix for the names of the run's keys and databases.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Creates a directory for a scenario.
    pub(super) fn directory(&self, name: &str) -> Result<PathBuf, SiteError> {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Returns the lock store, for steps of the run itself.
    pub(super) fn locks(&self) -> &LocksUrl {
        &self.redis
    }

    /// Creates empty databases for a scenario: that of the shops, and that of the payment provider.
    pub(super) async fn databases(&self, name: &str) -> Result<Databases, SiteError> {
        match &self.at {
            DatabasesAt::Sqlite => Ok(Databases::in_directory(&self.directory(name)?)?),
            DatabasesAt::Postgres { url, created, .. } => {
                let create = async |part: &str| {
                    let database = format!("sale_{}_{name}_{part}", self.id).replace('-', "_").to_lowercase();
                    execute(url, "create", &format!("create database \"{database}\"")).await?;
                    created.lock().unwrap_or_else(PoisonError::into_inner).push(database.clone());
                    let mut url = url.clone();
                    url.set_path(&database);
                    Ok::<DatabaseUrl, SiteError>(url.as_str().parse()?)
                };
                Ok(Databases { shop: create("shop").await?, payments: create("payments").await? })
            }
        }
    }

    /// Returns the database's version, for the report's footer.
    pub(super) async fn database_version(&self) -> Result<String, SiteError> {
        match &self.at {
            DatabasesAt::Sqlite => {
                let version = text("sqlite::memory:", "select sqlite_version()").await?;
                Ok(format!("SQLite {version} (WAL, synchronous=normal)"))
            }
            DatabasesAt::Postgres { server, url, .. } => {
                let version = text(url.as_str(), "select split_part(version(), ' on ', 1)").await?;
                Ok(match server {
                    Some(_) => format!("{version} (private, fsync=off)"),
                    None => version,
                })
            }
        }
    }

    /// Removes the run's keys and databases from servers that the run did not start.
    ///
    /// # Errors
    /// Returns [`SiteError`] if a server does not respond.
    pub async fn close(self) -> Result<(), SiteError> {
        if self.private_redis.is_none() {
            RedisConnection::connect(self.redis_url()).await?.remove_keys(&self.id).await?;
        }
        if let DatabasesAt::Postgres { server: None, url, created } = &self.at {
            let created = std::mem::take(&mut *created.lock().unwrap_or_else(PoisonError::into_inner));
            for database in created {
                execute(url, "drop", &format!("drop database \"{database}\" with (force)")).await?;
            }
        }
        Ok(())
    }

    /// Returns the run's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

async fn connect(url: &str, attempted: &'static str) -> Result<AnyConnection, SiteError> {
    sqlx::any::install_default_drivers();
    AnyConnection::connect(url).await.map_err(|source| SiteError::Database { attempted, source })
}

async fn execute(url: &Url, attempted: &'static str, statement: &str) -> Result<(), SiteError> {
    let mut connection = connect(url.as_str(), attempted).await?;
    let done = sqlx::query(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut connection).await;
    done.map_err(|source| SiteError::Database { attempted, source })?;
    Ok(())
}

async fn text(url: &str, query: &'static str) -> Result<String, SiteError> {
    let mut connection = connect(url, "query").await?;
    let text = sqlx::query_scalar(query).fetch_one(&mut connection).await;
    text.map_err(|source| SiteError::Database { attempted: "query", source })
}
