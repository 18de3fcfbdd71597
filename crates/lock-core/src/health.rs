//! The health of a store, checked at most once a second.

use crate::{
    error::LockError,
    sync::{Mutex, lock, rank},
    time::Moment,
};
use std::{fmt, time::Duration};

/// The time for which the result of a check is reused.
const FRESH: Duration = Duration::from_secs(1);

/// The result of a check of the store, returned by [`LockFactory::health`](crate::LockFactory::health).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Health {
    /// The store answered.
    Answering {
        /// The time from the request to the reply.
        latency: Duration,
    },
    /// The store did not reply in time or refused the request, or the factory was shut down.
    Failing {
        /// The time since the first of the consecutive failed checks.
        failing_for: Duration,
        /// The error of the last check.
        error: LockError,
    },
}

impl Health {
    /// Returns `true` if the store answered.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        matches!(self, Self::Answering { .. })
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answering { latency } => write!(f, "the store replied in {latency:?}"),
            Self::Failing { failing_for: Duration::ZERO, error } => {
                write!(f, "the store is not answering: {error:#}")
            }
            Self::Failing { failing_for, error } => {
                write!(f, "the store has not been answering for {failing_for:?}: {error:#}")
            }
        }
    }
}

/// The latest check of a factory.
#[derive(Default)]
pub(crate) struct Checks {
    /// Held by the caller that asks the store. The others wait for it, and then return the same result.
    pub(crate) turn: tokio::sync::Mutex<()>,
    latest: Mutex<rank::LatestCheck, Option<Check>>,
}

impl Checks {
    /// Returns the result of the latest check, if it was made within the last second.
    pub(crate) fn fresh(&self, now: Moment) -> Option<Health> {
        lock(&self.latest).as_ref().filter(|check| check.is_fresh(now)).map(|check| check.health(now))
    }

    /// Returns the failure of a caller whose turn did not come in time, with the time since the first failure.
    pub(crate) fn failing(&self, now: Moment, error: LockError) -> Health {
        Check::new(now, lock(&self.latest).as_ref(), Err(error)).health(now)
    }

    /// Replaces the latest check, and returns its result.
    pub(crate) fn add(&self, at: Moment, result: Result<Duration, LockError>) -> Health {
        let mut latest = lock(&self.latest);
        let check = Check::new(at, latest.as_ref(), result);
        latest.insert(check).health(at)
    }
}

struct Check {
    at: Moment,
    /// The time of the first of the consecutive failures.
    failing_since: Option<Moment>,
    result: Result<Duration, LockError>,
}

impl Check {
    fn new(at: Moment, before: Option<&Self>, result: Result<Duration, LockError>) -> Self {
        let since = before.and_then(|before| before.failing_since);
        let failing_since = result.is_err().then(|| since.unwrap_or(at));
        Self { at, failing_since, result }
    }

    fn is_fresh(&self, now: Moment) -> bool {
        now.since(self.at) < FRESH
    }

    fn health(&self, now: Moment) -> Health {
        match &self.result {
            Ok(latency) => Health::Answering { latency: *latency },
            Err(error) => {
                let failing_for = self.failing_since.map_or(Duration::ZERO, |since| now.since(since));
                Health::Failing { failing_for, error: error.clone() }
            }
        }
    }
}
