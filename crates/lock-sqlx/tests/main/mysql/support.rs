//! A database of its own on a server that all tests share.

use lock_core::{LockFactory, Store};
use lock_sqlx::MySqlBackend;
use lock_testkit::MariaDbServer;
use sqlx::{MySqlPool, mysql::MySqlPoolOptions};
use std::sync::{
    LazyLock,
    atomic::{AtomicU32, Ordering},
};

static SERVER: LazyLock<MariaDbServer> = LazyLock::new(MariaDbServer::start);

/// The tables of a test.
pub(crate) struct Database {
    url: String,
}

impl Database {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        Self::on(&SERVER, &format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed)))
    }

    /// On another server.
    pub(crate) fn on(server: &MariaDbServer, name: &str) -> Self {
        Self { url: server.database(name) }
    }

    /// The URL without parameters.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns a client with connections of its own, as another process has it.
    pub(crate) async fn client(&self) -> MySqlBackend {
        MySqlBackend::connect(&format!("{}?migrate=true", self.url)).await.unwrap()
    }

    pub(crate) async fn store(&self) -> Store {
        self.client().await.into()
    }

    pub(crate) async fn locks(&self) -> LockFactory {
        LockFactory::new(self.client().await)
    }

    /// Returns connections of an application.
    pub(crate) async fn pool(&self) -> MySqlPool {
        MySqlPoolOptions::new().max_connections(4).connect(&self.url).await.unwrap()
    }
}
