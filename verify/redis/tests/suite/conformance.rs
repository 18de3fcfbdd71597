//! Redis passes the suite in real time: each property on its own server, as a user that only has the permissions listed
//! in `docs/protocol.md`.

use super::support::redis;
use crate::client::RedisBackend;
use lock_core::Store;
use lock_ledger::RunLedger;
use lock_testkit::{
    RedisServer,
    conformance::{Harness, LedgerHarness},
};
use std::sync::Arc;

/// Reads the permissions from the documentation, so that the tests run with what it says.
pub(super) fn least_rights() -> String {
    let document = include_str!("../../../../docs/protocol.md");
    let line = document.lines().find(|line| line.starts_with("user locks "));
    line.expect("the line is in the document").replace("~stock:*", "~conformance:*")
}

struct OwnRedis(RedisServer);

impl OwnRedis {
    fn start() -> Self {
        Self(RedisServer::builder().user(&least_rights()).start())
    }

    async fn client(&self) -> RedisBackend {
        redis(&format!("redis://locks:change-me@127.0.0.1:{}", self.0.port())).await
    }
}

impl Harness for OwnRedis {
    async fn store(&self) -> Store {
        self.client().await.into()
    }
    async fn another(&self, _: &Store) -> Store {
        self.client().await.into()
    }
}

impl LedgerHarness for OwnRedis {
    async fn ledger(&self) -> Arc<dyn RunLedger> {
        Arc::new(self.client().await)
    }
    async fn another_ledger(&self, _: &Arc<dyn RunLedger>) -> Arc<dyn RunLedger> {
        Arc::new(self.client().await)
    }
}

lock_testkit::conformance!(OwnRedis::start(), flavor = "multi_thread", worker_threads = 1);

mod permits {
    use super::OwnRedis;
    lock_testkit::permit_conformance!(OwnRedis::start(), flavor = "multi_thread", worker_threads = 1);
}

mod ledger {
    use super::OwnRedis;
    lock_testkit::ledger_conformance!(OwnRedis::start(), flavor = "multi_thread", worker_threads = 1);
}
