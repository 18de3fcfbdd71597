//! A file of locks in a folder of its own.

use lock_core::{LockFactory, Store};
use lock_sqlx::SqliteBackend;
use sqlx::{ConnectOptions as _, sqlite::SqliteConnectOptions};
use std::{path::PathBuf, time::Duration};
use tempfile::TempDir;

pub(crate) struct LockFile(TempDir);

impl LockFile {
    pub(crate) fn new() -> Self {
        Self(tempfile::Builder::new().prefix("lock-sqlx-").tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    /// Returns a client with a connection of its own, as another process has it.
    pub(crate) async fn client(&self) -> SqliteBackend {
        SqliteBackend::connect(&self.url()).await.unwrap()
    }

    pub(crate) async fn store(&self) -> Store {
        self.client().await.into()
    }

    /// Waits until a renewal has found that the counter of a lock has expired.
    pub(crate) async fn counter_has_expired(&self, name: &str) {
        let options = SqliteConnectOptions::new().filename(self.path());
        let mut connection = options.connect().await.unwrap();
        let mut last = Some(0_i64);
        while last.is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let read = sqlx::query_scalar("select last from distlock_lock where name = ?1").bind(name);
            last = read.fetch_one(&mut connection).await.unwrap();
        }
    }

    pub(crate) async fn locks(&self) -> LockFactory {
        LockFactory::new(self.client().await)
    }
}
