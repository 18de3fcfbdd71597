//! All properties of a single server. One deployment serves all tests, because their names do not collide.

use super::super::{conformance::least_rights, support::redis};
use lock_core::Store;
use lock_ledger::RunLedger;
use lock_testkit::{
    RedisSentinels,
    conformance::{Harness, LedgerHarness},
};
use std::sync::{Arc, LazyLock};

struct Sentinels;

impl Sentinels {
    fn url() -> String {
        static DEPLOYMENT: LazyLock<RedisSentinels> = LazyLock::new(|| {
            RedisSentinels::with(|server| server.user(&least_rights()), |sentinel| sentinel)
        });
        DEPLOYMENT.url().replace("://", "://locks:change-me@")
    }
}

impl Harness for Sentinels {
    async fn store(&self) -> Store {
        redis(&Self::url()).await.into()
    }
    async fn another(&self, _: &Store) -> Store {
        redis(&Self::url()).await.into()
    }
}

impl LedgerHarness for Sentinels {
    async fn ledger(&self) -> Arc<dyn RunLedger> {
        Arc::new(redis(&Self::url()).await)
    }
    async fn another_ledger(&self, _: &Arc<dyn RunLedger>) -> Arc<dyn RunLedger> {
        Arc::new(redis(&Self::url()).await)
    }
}

lock_testkit::conformance!(Sentinels, flavor = "multi_thread", worker_threads = 1);

mod permits {
    use super::Sentinels;
    lock_testkit::permit_conformance!(Sentinels, flavor = "multi_thread", worker_threads = 1);
}

mod ledger {
    use super::Sentinels;
    lock_testkit::ledger_conformance!(Sentinels, flavor = "multi_thread", worker_threads = 1);
}
