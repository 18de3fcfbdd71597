//! The state of locks and of their store, as seen from outside: the holder and its process, the held locks, the health.

mod card;
#[cfg(feature = "__card-json")]
pub(crate) mod card_json;
mod queries;

pub use card::ProcessCard;
pub(crate) use card::{CardOptions, printable};

use crate::{
    backend::{LeaseId, StoredHold, Votes},
    error::LockError,
    ids::FencingToken,
    name::LockName,
    owner::Owner,
    sync::{Mutex, lock, rank},
    time::Moment,
};
use std::{fmt, time::Duration};

/// The state of a name in the store and in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The stored hold, if the lock is held.
    pub stored: Option<StoredHold>,
    /// The process of the stored hold, if it has a card in the store. Redisson writes none, and a process writes its
    /// card half a second after its first acquire.
    pub process: Option<ProcessCard>,
    /// The hold of this process, if it has one.
    pub local: Option<LocalHold>,
    /// The number of acquires that wait in this process.
    pub waiters: usize,
    /// The reply of each quorum node; empty if the store is not a quorum.
    pub votes: Votes,
}

impl Inspection {
    /// Returns the holder's note on its hold; see [`LockGuard::note`](crate::LockGuard::note).
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        let lease = LeaseId::parse(&self.stored.as_ref()?.lease)?;
        self.process.as_ref()?.notes.get(&lease.number()).map(String::as_str)
    }
}

/// A hold of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalHold {
    /// The owner.
    pub owner: Owner,
    /// Its fencing token.
    pub token: FencingToken,
    /// The number of its guards.
    pub depth: u32,
    /// The time since it was acquired.
    pub held_for: Duration,
    /// The time for which the hold stays valid without renewal.
    pub remaining: Duration,
    /// `true` after a failed renewal or a clock jump, until the hold is renewed.
    pub suspect: bool,
}

/// The result of a forced release.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForceReleaseOutcome {
    /// The lock was freed.
    Released {
        /// The lease id of the former holder, as stored.
        lease: String,
    },
    /// The holder that was found is already gone; its successor was not affected.
    HolderChanged,
    /// The lock was not held.
    NotHeld,
}

/// The bounds of [`LockFactory::list`](crate::LockFactory::list).
///
/// | bound | default |
/// | --- | --- |
/// | [`max_names`](Self::max_names) | 10,000 |
/// | [`max_time`](Self::max_time) | 5 s |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct ListLimits {
    names: usize,
    time: Duration,
}

impl ListLimits {
    /// Creates the default bounds.
    pub const fn new() -> Self {
        Self { names: 10_000, time: Duration::from_secs(5) }
    }

    /// Sets the maximum number of names to return.
    pub const fn max_names(mut self, names: usize) -> Self {
        self.names = names;
        self
    }

    /// Sets the maximum duration of the search.
    pub const fn max_time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Returns the maximum number of names, for implementations of [`Directory`](crate::backend::Directory).
    #[must_use]
    pub const fn names(&self) -> usize {
        self.names
    }

    /// Returns the maximum duration, for implementations of [`Directory`](crate::backend::Directory).
    #[must_use]
    pub const fn time(&self) -> Duration {
        self.time
    }
}

impl Default for ListLimits {
    fn default() -> Self {
        Self::new()
    }
}

/// The names of the locks that are held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The names, sorted and without duplicates.
    pub names: Vec<LockName>,
    /// `true` if the search stopped at one of its [bounds](ListLimits): there may be more names.
    pub truncated: bool,
}

impl Listing {
    /// Creates a listing, for implementations of [`Directory`](crate::backend::Directory). Sorts the names.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = LockName>, truncated: bool) -> Self {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self { names, truncated }
    }
}

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

/// The time for which the result of a check is reused.
const FRESH: Duration = Duration::from_secs(1);

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
