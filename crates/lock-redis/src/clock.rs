//! The estimate of the server's clock, from its last reply, and the trust in replies that fit it.

use lock_core::{__private::lock, clock::UtcTime};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::SetOnce, time::Instant};

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

/// The end of a connection and the reason for it, set once.
type End = Arc<SetOnce<String>>;

/// The trust in the replies of one connection, which those replies share.
///
/// A reply does not name its request. If a reply is lost or arrives twice, each later one counts as the reply to
/// another request, and many replies are a number alone. A time of the server can be told from other numbers; a reply
/// that does not fit its request shows that the connection is out of step.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    lost: AtomicBool,
    /// The readings of the server's clock over this connection only: a step of the clock is believed on the next one.
    clock: ServerClock,
    end: End,
}

impl Trust {
    pub(crate) fn new(end: End) -> Self {
        Self { end, ..Self::default() }
    }

    /// Records a reading of the clock by a request sent at `sent`. Returns `false`, and ends the connection, if it does
    /// not fit the earlier ones.
    pub(crate) fn believes(&self, sent: Instant, executed: UtcTime) -> bool {
        let fits = self.clock.fits(sent, executed);
        if fits {
            self.clock.learn(sent, executed);
        } else {
            self.lose("a reply does not fit the server's clock");
        }
        fits
    }

    /// Returns the estimated time of the server, if it was read over this connection.
    pub(crate) fn now(&self) -> Option<UtcTime> {
        self.clock.now()
    }

    /// Ends the connection because of a reply that does not fit its request. No later reply is accepted.
    pub(crate) fn lose(&self, why: &str) {
        self.lost.store(true, Ordering::Release);
        let _ = self.end.set(why.to_owned());
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}
