//! The estimate of the server's clock, from its last reply.

use crate::sync::lock;
use lock_core::clock::UtcTime;
use std::sync::Mutex;
use tokio::time::Instant;

/// A reading of the server's clock, and the local moment at which it was probably taken.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    sample: Mutex<Option<(Instant, UtcTime)>>,
}

impl ServerClock {
    /// Records that a request sent at `sent` was executed at server time `executed`. The execution is assumed to be in
    /// the middle of the round trip. Every reply replaces the previous reading, so a step of the server's clock takes
    /// effect immediately.
    pub(crate) fn learn(&self, sent: Instant, executed: UtcTime) {
        let middle = sent + sent.elapsed() / 2;
        *lock(&self.sample) = Some((middle, executed));
    }

    pub(crate) fn now(&self) -> Option<UtcTime> {
        let sample = *lock(&self.sample);
        sample.map(|(at, time)| time + at.elapsed())
    }
}
