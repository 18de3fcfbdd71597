//! The trust in replies that fit the server's clock.

pub(crate) use lock_core::__private::ServerClock;
use lock_core::clock::UtcTime;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::SetOnce, time::Instant};

/// The maximum difference between a reading and the readings before it over the same connection.
const MAX_STEP: Duration = Duration::from_secs(60);

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
        let fits = self.clock.fits(sent, executed, MAX_STEP);
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
