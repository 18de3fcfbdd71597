//! A faulty backend without faults is the backend inside.

use lock_core::{Backend, Clock, MemoryBackend, TestClock};
use lock_testkit::{FaultyBackend, conformance::Harness};
use std::sync::Arc;

struct Healthy;

impl Harness for Healthy {
    async fn backend(&self) -> Arc<dyn Backend> {
        let memory = MemoryBackend::with_clock(Arc::new(TestClock::new()));
        Arc::new(FaultyBackend::new(Arc::new(memory)))
    }
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(TestClock::new())
    }
}

lock_testkit::conformance!(Healthy, start_paused = true);
