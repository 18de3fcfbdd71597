//! SQLite passes the suite in real time, each property on its own file. Another client has another connection.

use crate::sqlite::support::LockFile;
use lock_core::Store;
use lock_ledger::RunLedger;
use lock_testkit::conformance::{Harness, LedgerHarness};
use std::sync::Arc;

impl Harness for LockFile {
    async fn store(&self) -> Store {
        LockFile::store(self).await
    }
    async fn another(&self, _: &Store) -> Store {
        LockFile::store(self).await
    }
}

impl LedgerHarness for LockFile {
    async fn ledger(&self) -> Arc<dyn RunLedger> {
        self.client().await.ledger()
    }
    async fn another_ledger(&self, _: &Arc<dyn RunLedger>) -> Arc<dyn RunLedger> {
        self.client().await.ledger()
    }
}

mod locks {
    use super::LockFile;
    lock_testkit::conformance!(LockFile::new(), flavor = "multi_thread", worker_threads = 1);
}

mod ledger {
    use super::LockFile;
    lock_testkit::ledger_conformance!(LockFile::new(), flavor = "multi_thread", worker_threads = 1);
}

mod permits {
    use super::LockFile;
    lock_testkit::permit_conformance!(LockFile::new(), flavor = "multi_thread", worker_threads = 1);
}
