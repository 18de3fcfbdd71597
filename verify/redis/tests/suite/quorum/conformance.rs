//! All properties of a single server, with three nodes that are declared durable, and with five that have proved that
//! they kept their data. Two quorums serve all tests, because their names do not collide.
//!
//! There is no suite for the run ledger here: the type system ensures that a quorum has none.

use super::super::{
    conformance::least_rights,
    support::{grow_old, quorum},
};
use lock_core::Store;
use lock_testkit::{RedisQuorum, conformance::Harness};
use std::sync::LazyLock;

static OF_THREE: LazyLock<RedisQuorum> = LazyLock::new(|| start(3));
static OF_FIVE: LazyLock<RedisQuorum> = LazyLock::new(|| start(5));

fn start(nodes: usize) -> RedisQuorum {
    let quorum = RedisQuorum::with(nodes, |server| server.user(&least_rights()));
    quorum.servers().iter().for_each(grow_old);
    quorum
}

struct Quorum {
    nodes: &'static LazyLock<RedisQuorum>,
    is_durable: bool,
}

impl Quorum {
    /// The suite uses leases of half an hour.
    async fn client(&self) -> Store {
        let url = self.nodes.url().replace("://", "://locks:change-me@");
        quorum(&format!("{url}?max_lease=1h&durable={}", self.is_durable)).await.into()
    }
}

impl Harness for Quorum {
    async fn store(&self) -> Store {
        self.client().await
    }
    async fn another(&self, _: &Store) -> Store {
        self.client().await
    }
}

mod of_three {
    use super::{OF_THREE, Quorum};
    const DURABLE: Quorum = Quorum { nodes: &OF_THREE, is_durable: true };
    lock_testkit::conformance!(DURABLE, flavor = "multi_thread", worker_threads = 1);
}

mod of_five {
    use super::{OF_FIVE, Quorum};
    const PROVEN: Quorum = Quorum { nodes: &OF_FIVE, is_durable: false };
    lock_testkit::conformance!(PROVEN, flavor = "multi_thread", worker_threads = 1);
}
