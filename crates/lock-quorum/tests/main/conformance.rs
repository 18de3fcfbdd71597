//! Conformance of quorums of in-memory stores in virtual time: three and five nodes, declared durable or not, and nodes
//! of different delays, of which the first majority decides.

use crate::{Fleet, node::Mode};
use lock_core::{
    MemoryBackend, Store,
    clock::{Clock, TestClock},
};
use lock_quorum::{Member, QuorumBackend};
use lock_testkit::conformance::Harness;
use std::{sync::Arc, time::Duration};

/// The suite uses leases of half an hour.
const MAX_LEASE: Duration = Duration::from_secs(3600);

struct Quorum {
    nodes: usize,
    is_durable: bool,
}

fn member(number: usize) -> Member {
    Member::new(format!("node-{number}"), MemoryBackend::with_clock(Arc::new(TestClock::new())))
}

fn quorum(members: Vec<Member>) -> Store {
    let clock = Arc::new(TestClock::new());
    QuorumBackend::builder(members).max_lease(MAX_LEASE).clock(clock).build().unwrap().into()
}

impl Harness for Quorum {
    async fn store(&self) -> Store {
        let members = (0..self.nodes).map(member);
        if self.is_durable {
            return quorum(members.map(Member::durable).collect());
        }
        let store = quorum(members.collect());
        // A new quorum has to wait for one maximum lease.
        tokio::time::sleep(MAX_LEASE).await;
        store
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(TestClock::new())
    }
}

struct Slow;

impl Harness for Slow {
    async fn store(&self) -> Store {
        let fleet = Fleet::of(5);
        for (number, node) in (1..).zip(&fleet.nodes) {
            node.set(Mode::Slow(Duration::from_millis(number)));
        }
        quorum(fleet.members())
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(TestClock::new())
    }
}

mod of_three {
    use super::Quorum;
    lock_testkit::conformance!(Quorum { nodes: 3, is_durable: true }, start_paused = true);
}

mod of_five {
    use super::Quorum;
    lock_testkit::conformance!(Quorum { nodes: 5, is_durable: true }, start_paused = true);
}

mod undeclared {
    use super::Quorum;
    lock_testkit::conformance!(Quorum { nodes: 3, is_durable: false }, start_paused = true);
}

mod slow {
    use super::Slow;
    lock_testkit::conformance!(Slow, start_paused = true);
}
