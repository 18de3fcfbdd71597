//! Conformance of the in-memory backend, in virtual time.

use lock_core::{
    MemoryBackend, Store,
    clock::{Clock, TestClock},
};
use lock_ledger::{MemoryLedger, RunLedger};
use lock_testkit::{
    PermitRun, Seed,
    conformance::{Harness, LedgerHarness},
};
use std::sync::Arc;

struct Memory;

impl Harness for Memory {
    async fn store(&self) -> Store {
        MemoryBackend::with_clock(Arc::new(TestClock::new())).into()
    }
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(TestClock::new())
    }
}

impl LedgerHarness for Memory {
    async fn ledger(&self) -> Arc<dyn RunLedger> {
        Arc::new(MemoryLedger::with_clock(Arc::new(TestClock::new())))
    }
}

lock_testkit::conformance!(Memory, start_paused = true);

mod permits {
    use super::*;

    lock_testkit::permit_conformance!(Memory, start_paused = true);

    #[tokio::test(start_paused = true)]
    async fn random_operations_follow_the_rules() {
        let mut run = PermitRun::new(Memory.store().await.backend, Seed::of_this_run());
        for _ in 0..2_000 {
            run.step(4).await;
        }
        let seen = run.seen();
        assert!(seen.len() == 8 && seen.values().all(|&times| times > 20), "{seen:?}");
    }
}

/// The same store without its wake-ups: waiters poll.
struct Polled;

impl Harness for Polled {
    async fn store(&self) -> Store {
        Store::new(Arc::new(MemoryBackend::with_clock(Arc::new(TestClock::new()))))
    }
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(TestClock::new())
    }
}

mod polled {
    use super::Polled;
    lock_testkit::conformance!(Polled, start_paused = true);
}

mod ledger {
    use super::Memory;
    lock_testkit::ledger_conformance!(Memory, start_paused = true);
}
