//! Readings of clocks and processes, and records of the sections under a lock.

pub(crate) mod exclusion;
mod machine;
pub(crate) mod pinning;
mod section;
mod summary;
mod usage;

pub(crate) use machine::Machine;
pub(crate) use section::{Section, read, write};
pub(crate) use summary::summarize;
pub(crate) use usage::{Usage, resident_bytes};

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Reads the monotonic clock, which all processes of the machine share, in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Both parts of a monotonic time are non-negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Converts a duration to nanoseconds, the unit of [`now`].
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
