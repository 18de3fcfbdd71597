//! PostgreSQL passes the suite in real time, each property in its own schema. Another client has other connections.

use super::support::Schema;
use lock_core::Store;
use lock_ledger::RunLedger;
use lock_testkit::conformance::{Harness, LedgerHarness};
use std::sync::Arc;

impl Harness for Schema {
    async fn store(&self) -> Store {
        Schema::store(self).await
    }
    async fn another(&self, _: &Store) -> Store {
        Schema::store(self).await
    }
}

impl LedgerHarness for Schema {
    async fn ledger(&self) -> Arc<dyn RunLedger> {
        self.client().await.ledger()
    }
    async fn another_ledger(&self, _: &Arc<dyn RunLedger>) -> Arc<dyn RunLedger> {
        self.client().await.ledger()
    }
}

mod ledger {
    use super::Schema;
    lock_testkit::ledger_conformance!(Schema::new(), flavor = "multi_thread", worker_threads = 1);
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

mod permits {
    use super::Schema;
    lock_testkit::permit_conformance!(Schema::new(), flavor = "multi_thread", worker_threads = 1);
}

/// As behind a pooler.
mod pooled_permits {
    use super::Schema;
    lock_testkit::permit_conformance!(
        Schema::with("&pooler=true"),
        flavor = "multi_thread",
        worker_threads = 1
    );
}
