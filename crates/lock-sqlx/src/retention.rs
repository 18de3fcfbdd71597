//! The time for which counters are kept.

use std::time::Duration;

/// The default time for which a counter is kept.
pub(crate) const RETENTION: Duration = Duration::from_secs(60 * 60);
