//! The in-memory backend conforms, in virtual time.

use lock_core::{Backend, Clock, MemoryBackend, TestClock};
use lock_testkit::conformance::Harness;
use std::sync::Arc;

struct Memory;

impl Harness for Memory {
    async fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(MemoryBackend::with_clock(Arc::new(TestClock::new())))
    }
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(TestClock::new())
    }
}

lock_testkit::conformance!(Memory, start_paused = true);

mod ledger {
    use super::Memory;
    lock_testkit::ledger_conformance!(Memory, start_paused = true);
}
