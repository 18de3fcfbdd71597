//! MariaDB passes the suite in real time, each property in its own database. Another client has other connections.

use super::support::Database;
use lock_core::Store;
use lock_testkit::conformance::Harness;

impl Harness for Database {
    async fn store(&self) -> Store {
        Database::store(self).await
    }
    async fn another(&self, _: &Store) -> Store {
        Database::store(self).await
    }
}

lock_testkit::conformance!(Database::new(), flavor = "multi_thread", worker_threads = 1);
