//! A schema of its own on a server that all tests share.

use lock_core::{LockFactory, Store};
use lock_sqlx::PostgresBackend;
use lock_testkit::{PostgresPooler, PostgresServer};
use sqlx::{PgPool, postgres::PgPoolOptions};
use std::sync::{
    LazyLock,
    atomic::{AtomicU32, Ordering},
};

static SERVER: LazyLock<PostgresServer> =
    LazyLock::new(|| PostgresServer::with_settings(&["fsync=on", "track_commit_timestamp=on"]));

/// The tables of a test.
pub(crate) struct Schema {
    address: String,
    schema: String,
    parameters: String,
}

impl Schema {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// With further parameters of the URL.
    pub(crate) fn with(parameters: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { schema: format!("test_{number}"), parameters: parameters.to_owned(), address: SERVER.url() }
    }

    /// Behind a pooler.
    pub(crate) async fn pooled() -> Self {
        static POOLER: LazyLock<PostgresPooler> = LazyLock::new(|| PostgresPooler::of(&SERVER));
        let direct = Self::with("");
        drop(direct.client().await);
        Self {
            address: POOLER.url().to_owned(),
            parameters: "&pooler=true&migrate=false".to_owned(),
            ..direct
        }
    }

    /// On another server.
    pub(crate) fn on(server: &PostgresServer) -> Self {
        Self { address: server.url(), ..Self::with("") }
    }

    /// The same tables on another server.
    pub(crate) fn elsewhere(&self, server: &PostgresServer) -> Self {
        Self { address: server.url(), schema: self.schema.clone(), parameters: self.parameters.clone() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.schema
    }

    pub(crate) fn url(&self) -> String {
        let Self { address, schema, parameters } = self;
        format!("{address}?migrate=true&schema={schema}{parameters}")
    }

    /// Returns connections of an application.
    pub(crate) async fn pool(&self) -> PgPool {
        let path = format!("set search_path to {}", self.schema);
        let pool = PgPoolOptions::new().max_connections(4).after_connect(move |connection, _| {
            let path = path.clone();
            Box::pin(
                async move { sqlx::raw_sql(sqlx::AssertSqlSafe(path)).execute(connection).await.map(drop) },
            )
        });
        pool.connect(&self.address).await.unwrap()
    }

    /// Returns a client with connections of its own, as another process has it.
    pub(crate) async fn client(&self) -> PostgresBackend {
        PostgresBackend::connect(&self.url()).await.unwrap()
    }

    pub(crate) async fn store(&self) -> Store {
        self.client().await.into()
    }

    pub(crate) async fn locks(&self) -> LockFactory {
        LockFactory::new(self.client().await)
    }
}
