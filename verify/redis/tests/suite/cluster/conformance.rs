//! All properties that hold for one server. One cluster serves all tests, because their names do not collide.

use super::super::{conformance::least_rights, support::redis};
use lock_core::Store;
use lock_ledger::RunLedger;
use lock_testkit::{
    RedisCluster,
    conformance::{Harness, LedgerHarness},
};
use std::sync::{Arc, LazyLock};

/// Returns the least permissions, and those that a cluster additionally needs, from the documentation.
pub(in super::super) fn rights() -> String {
    let document = include_str!("../../../../../docs/protocol.md");
    let line = document.lines().find(|line| line.starts_with("+cluster|slots "));
    let sharded = line.expect("the line is in the document");
    let version = lock_testkit::RedisServer::start().version().to_owned();
    // Older versions lack these commands.
    let more = if version.starts_with("6.") { "+cluster|slots +asking" } else { sharded };
    format!("{} {more}", least_rights())
}

struct Cluster;

impl Cluster {
    fn url() -> String {
        static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(|| {
            let rights = rights();
            RedisCluster::with(|server| server.user(&rights))
        });
        CLUSTER.url().replace("://", "://locks:change-me@")
    }
}

impl Harness for Cluster {
    async fn store(&self) -> Store {
        redis(&Self::url()).await.into()
    }
    async fn another(&self, _: &Store) -> Store {
        redis(&Self::url()).await.into()
    }
}

impl LedgerHarness for Cluster {
    async fn ledger(&self) -> Arc<dyn RunLedger> {
        Arc::new(redis(&Self::url()).await)
    }
    async fn another_ledger(&self, _: &Arc<dyn RunLedger>) -> Arc<dyn RunLedger> {
        Arc::new(redis(&Self::url()).await)
    }
}

lock_testkit::conformance!(Cluster, flavor = "multi_thread", worker_threads = 1);

mod permits {
    use super::Cluster;
    lock_testkit::permit_conformance!(Cluster, flavor = "multi_thread", worker_threads = 1);
}

mod ledger {
    use super::Cluster;
    lock_testkit::ledger_conformance!(Cluster, flavor = "multi_thread", worker_threads = 1);
}
