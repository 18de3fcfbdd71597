//! Wall-clock times, in UTC.

use super::{date::date, micros};
use std::{
    fmt,
    num::NonZeroU64,
    ops::{Add, Sub},
    time::{Duration, SystemTime},
};

/// A time in UTC, in microseconds since 1970-01-01T00:00:00Z; leap seconds are not counted.
///
/// It is a plain number rather than a [`SystemTime`], whose resolution depends on the platform. Methods that
/// take one also accept a `SystemTime`. Arithmetic saturates.
///
/// [`Clock::wall`](crate::clock::Clock::wall) and [`now`](Self::now) return this machine's time; a store
/// returns its server's time. Either clock may step.
///
/// ```
/// use lock_core::clock::UtcTime;
/// use std::time::{Duration, SystemTime};
///
/// let instant = UtcTime::from_millis(1_774_746_000_000);
/// assert_eq!(instant.to_string(), "2026-03-29T01:00:00Z");
/// assert_eq!((instant + Duration::from_millis(250)).to_string(), "2026-03-29T01:00:00.25Z");
/// assert_eq!(SystemTime::from(instant), SystemTime::UNIX_EPOCH + Duration::from_secs(1_774_746_000));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UtcTime(NonZeroU64);

counts_micros!(UtcTime);

impl UtcTime {
    /// Creates the time this many milliseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_micros(millis.saturating_mul(1000))
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z, rounded down as in Redis.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.as_micros() / 1000
    }
}

/// Rounds down to the microsecond. Times before 1970 become 1970-01-01T00:00:00Z.
impl From<SystemTime> for UtcTime {
    fn from(time: SystemTime) -> Self {
        Self::from_micros(micros(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()))
    }
}

/// Converts to the same time, or to the epoch if the platform cannot represent it.
impl From<UtcTime> for SystemTime {
    fn from(time: UtcTime) -> Self {
        Self::UNIX_EPOCH.checked_add(Duration::from_micros(time.as_micros())).unwrap_or(Self::UNIX_EPOCH)
    }
}

/// Formats the time as in RFC 3339, with as many fractional digits as it needs: `2026-03-29T01:59:59Z`, or
/// `2026-03-29T01:59:59.25Z`.
impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.as_micros() / 1_000_000, self.as_micros() % 1_000_000);
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if micros != 0 {
            write!(f, ".{}", format!("{micros:06}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

impl fmt::Debug for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_printed_without_trailing_zeros() {
        let shown = |micros| UtcTime::from_micros(micros).to_string();
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(951_868_799_999_999), "2000-02-29T23:59:59.999999Z");
        assert_eq!(shown(1_774_749_599_250_000), "2026-03-29T01:59:59.25Z");
        assert_eq!(shown(1_774_749_599_000_010), "2026-03-29T01:59:59.00001Z");
        assert!(shown(u64::MAX).ends_with('Z'));
    }

    #[test]
    fn system_times_are_rounded_down_and_do_not_overflow() {
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(UtcTime::from(epoch - Duration::from_nanos(1)), UtcTime::from_micros(0));
        assert_eq!(UtcTime::from(epoch + Duration::from_nanos(1_999)), UtcTime::from_micros(1));
        let last = UtcTime::from_micros(u64::MAX);
        assert!([last, UtcTime::from_micros(0)].contains(&UtcTime::from(SystemTime::from(last))));
        assert_eq!(UtcTime::from_millis(u64::MAX), last);
    }
}
