//! The list of the locks that are held in a store.

use crate::name::LockName;
use std::time::Duration;

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
