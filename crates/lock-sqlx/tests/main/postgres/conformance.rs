//! PostgreSQL passes the suite in real time, each property in its own schema. Another client has other connections.

use super::support::Schema;
use lock_core::Store;
use lock_testkit::conformance::Harness;

impl Harness for Schema {
    async fn store(&self) -> Store {
        Schema::store(self).await
    }
    async fn another(&self, _: &Store) -> Store {
        Schema::store(self).await
    }
}

mod listening {
    use super::Schema;
    lock_testkit::conformance!(Schema::new(), flavor = "multi_thread", worker_threads = 1);
}

/// As behind a pooler.
mod pooled {
    use super::Schema;
    lock_testkit::conformance!(Schema::with("&pooler=true"), flavor = "multi_thread", worker_threads = 1);
}
