//! A file of locks in a folder of its own.

use lock_core::{LockFactory, Store};
use lock_sqlx::SqliteBackend;
use std::path::PathBuf;
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

    pub(crate) async fn locks(&self) -> LockFactory {
        LockFactory::new(self.client().await)
    }
}
