//! Conformance of a faulty backend without faults.

use lock_core::{
    MemoryBackend, Store,
    clock::{Clock, TestClock},
};
use lock_testkit::{FaultyBackend, conformance::Harness};
use std::sync::Arc;

struct Healthy;

impl Harness for Healthy {
    async fn store(&self) -> Store {
        FaultyBackend::new(MemoryBackend::with_clock(Arc::new(TestClock::new()))).into()
    }
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(TestClock::new())
    }
}

lock_testkit::conformance!(Healthy, start_paused = true);
