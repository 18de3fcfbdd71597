//! Arithmetic of instants; it saturates, since a far instant is as good as never.

use crate::schedule::UtcTime;
use std::time::Duration;

fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

impl UtcTime {
    pub(crate) fn saturating_add(self, d: Duration) -> Self {
        Self::from_millis(self.as_millis().saturating_add(millis(d)))
    }

    pub(crate) fn saturating_sub(self, d: Duration) -> Self {
        Self::from_millis(self.as_millis().saturating_sub(millis(d)))
    }

    /// The time from `earlier` to this; zero if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        let millis = self.as_millis().saturating_sub(earlier.as_millis());
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}
