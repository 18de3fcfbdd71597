//! Trust in the replies of a connection.
//!
//! A reply does not name its request. If a reply is lost or arrives twice, each later one counts as the reply to another
//! request, and many replies are a number alone. A time of the server can be told from other numbers; a reply that
//! does not fit its request shows that the connection is out of step.

use crate::clock::ServerClock;
use lock_core::clock::UtcTime;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::{sync::SetOnce, time::Instant};

/// The end of a connection and the reason for it, set once.
type End = Arc<SetOnce<String>>;

/// The trust in the replies of one connection, which those replies share.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    lost: AtomicBool,
    /// The readings of the server's clock over this connection only: a step of the clock is believed on the next one.
    clock: ServerClock,
    end: End,
}

impl Trust {
    pub(super) fn new(end: End) -> Self {
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

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}
