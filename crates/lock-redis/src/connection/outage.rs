//! The reason why there is no connection, for the errors of the requests that need one.

use crate::sync::lock;
use std::{fmt, sync::Mutex};
use tokio::time::Instant;

/// The time since which there is no connection, and the latest reason. Outdated while there is one.
pub(crate) struct Outage(Mutex<State>);

struct State {
    since: Instant,
    reason: String,
}

impl Outage {
    /// Creates the outage of a connection that is dialled for the first time.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { since: Instant::now(), reason: "still connecting".to_owned() }))
    }

    /// Records the end of a connection.
    pub(crate) fn begin(&self, reason: String) {
        *lock(&self.0) = State { since: Instant::now(), reason };
    }

    /// Records the reason of the latest failed dial.
    pub(crate) fn goes_on(&self, reason: String) {
        lock(&self.0).reason = reason;
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { since, reason } = &*lock(&self.0);
        write!(f, "{reason}; for {} s", since.elapsed().as_secs())
    }
}

impl fmt::Debug for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
