//! The estimate of the server's clock, from its last reply.

use crate::sync::lock;
use lock_core::clock::UtcTime;
use std::{sync::Mutex, time::Duration};
use tokio::time::Instant;

/// The maximum difference between a reading and the readings before it over the same connection.
const MAX_STEP: Duration = Duration::from_secs(60);

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

    /// Returns `true` if a request sent at `sent` and answered now may have been executed at server time `executed`:
    /// the clock did not step by more than a minute, or was never read.
    pub(crate) fn fits(&self, sent: Instant, executed: UtcTime) -> bool {
        let Some((at, time)) = *lock(&self.sample) else { return true };
        let earliest = time + sent.saturating_duration_since(at);
        executed <= time + at.elapsed() + MAX_STEP && executed + MAX_STEP >= earliest
    }
}
