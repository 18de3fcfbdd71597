//! The instants of runs: milliseconds of UTC, which are the same on every node; and all conversions of times.

use jiff::Timestamp;
use lock_core::clock::ServerTime;
use std::{
    fmt,
    time::{Duration, SystemTime},
};

/// An instant in UTC, in milliseconds since 1970-01-01T00:00:00Z; leap seconds are not counted.
///
/// The scheduled instant of a run is part of its identity, so it is a plain number and not a [`SystemTime`], whose
/// resolution depends on the platform. Every method that takes one also accepts a `SystemTime`.
///
/// ```
/// use lock_cron::UtcTime;
/// use std::time::{Duration, SystemTime};
///
/// let instant = UtcTime::from_millis(1_774_746_000_000);
/// assert_eq!(instant.to_string(), "2026-03-29T01:00:00Z");
/// assert_eq!(SystemTime::from(instant), SystemTime::UNIX_EPOCH + Duration::from_secs(1_774_746_000));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcTime(i64);

impl UtcTime {
    /// Creates the instant that many milliseconds after 1970-01-01T00:00:00Z, or before if negative.
    ///
    /// ```
    /// assert_eq!(lock_cron::UtcTime::from_millis(1_500).as_millis(), 1_500);
    /// ```
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z; negative before.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// assert_eq!(lock_cron::UtcTime::from(SystemTime::UNIX_EPOCH).as_millis(), 0);
    /// ```
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the current instant of the system's clock.
    ///
    /// ```
    /// assert!(lock_cron::UtcTime::now().as_millis() > 0);
    /// ```
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Returns the second that contains this instant.
    pub(crate) const fn second(self) -> i64 {
        self.0.div_euclid(1000)
    }

    pub(crate) fn from_second(second: i64) -> Option<Self> {
        second.checked_mul(1000).map(Self)
    }

    // Arithmetic saturates, since a distant instant is equivalent to never.

    pub(crate) fn saturating_add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(millis(d)))
    }

    pub(crate) fn saturating_sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(millis(d)))
    }

    /// Returns the time from `earlier` to this; zero if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns the same instant on the server's clock, which begins in 1970.
    pub(crate) fn to_server_time(self) -> ServerTime {
        ServerTime::from_millis(u64::try_from(self.0).unwrap_or(0))
    }
}

fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

/// Converts to the same instant, rounded down to the millisecond.
impl From<ServerTime> for UtcTime {
    fn from(time: ServerTime) -> Self {
        Self(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Rounds down to the millisecond; instants out of range become the first or the last one.
impl From<SystemTime> for UtcTime {
    fn from(time: SystemTime) -> Self {
        let millis = |d: Duration| i64::try_from(d.as_millis());
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Self(millis(since).unwrap_or(i64::MAX)),
            Err(before) => {
                let before = before.duration();
                let part = i64::from(before.subsec_nanos() % 1_000_000 != 0);
                Self(millis(before).map_or(i64::MIN, |ms| -ms - part))
            }
        }
    }
}

/// Converts to the same instant, or to the epoch if the platform cannot represent it.
impl From<UtcTime> for SystemTime {
    fn from(time: UtcTime) -> Self {
        let distance = Duration::from_millis(time.0.unsigned_abs());
        let shown = match time.0 < 0 {
            true => Self::UNIX_EPOCH.checked_sub(distance),
            false => Self::UNIX_EPOCH.checked_add(distance),
        };
        shown.unwrap_or(Self::UNIX_EPOCH)
    }
}

/// Formats as in RFC 3339, or as a number outside its range of years.
impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
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
    fn an_instant_before_1970_is_rounded_down_too() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_micros(1_500);
        assert_eq!(UtcTime::from(before), UtcTime::from_millis(-2));
        assert_eq!(UtcTime::from(SystemTime::from(UtcTime::from_millis(-2))), UtcTime::from_millis(-2));
        assert_eq!(UtcTime::from_millis(-1).second(), -1);
    }

    #[test]
    fn server_time_is_rounded_down_and_back() {
        let time = UtcTime::from(ServerTime::from_micros(1_767_225_600_123_999));
        assert_eq!(time, UtcTime::from_millis(1_767_225_600_123));
        assert_eq!(time.to_server_time(), ServerTime::from_micros(1_767_225_600_123_000));
        assert_eq!(UtcTime::from_millis(-5).to_server_time(), ServerTime::from_micros(0));
    }

    #[test]
    fn the_ends_of_time_are_shown_and_do_not_overflow() {
        for end in [i64::MIN, i64::MAX] {
            let end = UtcTime::from_millis(end);
            assert!(end.to_string().ends_with(" ms"));
            let _ = SystemTime::from(end);
        }
    }
}
