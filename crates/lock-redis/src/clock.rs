//! The server's clock, estimated from its last answer.

use crate::sync::lock;
use lock_core::clock::ServerTime;
use std::sync::Mutex;
use tokio::time::Instant;

/// A reading of the server's clock, and the moment at which it was probably taken.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    sample: Mutex<Option<(Instant, ServerTime)>>,
}

impl ServerClock {
    /// A request sent then was executed at that server time; the middle of the way is the best guess. Every
    /// answer counts, so that a step of the server's clock is followed at once.
    pub(crate) fn learn(&self, sent: Instant, executed: ServerTime) {
        let middle = sent + sent.elapsed() / 2;
        *lock(&self.sample) = Some((middle, executed));
    }

    pub(crate) fn now(&self) -> Option<ServerTime> {
        let sample = *lock(&self.sample);
        sample.map(|(at, time)| time + at.elapsed())
    }
}
