//! The conformance suite over nodes of different delays: decisions are made before all have answered.

use super::{Fleet, Mode};
use lock_core::{
    Store,
    clock::{Clock, TestClock},
};
use lock_quorum::QuorumBackend;
use lock_testkit::conformance::Harness;
use std::{sync::Arc, time::Duration};

struct Slow;

impl Harness for Slow {
    async fn store(&self) -> Store {
        let fleet = Fleet::of(5);
        for (number, node) in (1..).zip(&fleet.nodes) {
            node.set(Mode::Slow(Duration::from_millis(number)));
        }
        let clock = Arc::new(TestClock::new());
        let quorum =
            QuorumBackend::builder(fleet.members()).clock(clock).max_lease(Duration::from_secs(3600));
        quorum.build().unwrap().into()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(TestClock::new())
    }
}

lock_testkit::conformance!(Slow, start_paused = true);
