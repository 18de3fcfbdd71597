//! SQLite passes the suite in real time, each property on its own file. Another client has another connection.

use crate::sqlite::support::LockFile;
use lock_core::Store;
use lock_testkit::conformance::Harness;

impl Harness for LockFile {
    async fn store(&self) -> Store {
        LockFile::store(self).await
    }
    async fn another(&self, _: &Store) -> Store {
        LockFile::store(self).await
    }
}

lock_testkit::conformance!(LockFile::new(), flavor = "multi_thread", worker_threads = 1);
