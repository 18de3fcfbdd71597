//! The two kinds of time: moments of the process, on which decisions are based, and times of a wall clock; and waits
//! that double.

use std::{
    fmt,
    num::NonZeroU64,
    ops::{Add, Sub},
    time::{Duration, SystemTime},
};

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

/// The arithmetic of both times. It saturates, since a distant moment is equivalent to never. The origin is stored
/// as 1, so that an `Option` of a time takes no more space than the time.
macro_rules! counts_micros {
    ($time:ident) => {
        const _: () = assert!(size_of::<Option<$time>>() == size_of::<$time>());

        impl $time {
            /// Creates the time this many microseconds after the origin.
            #[must_use]
            pub const fn from_micros(micros: u64) -> Self {
                Self(NonZeroU64::MIN.saturating_add(micros))
            }

            /// Returns the microseconds since the origin.
            #[must_use]
            pub const fn as_micros(self) -> u64 {
                self.0.get() - 1
            }

            /// Returns the time that elapsed from `earlier` to `self`; zero if `earlier` is later.
            #[must_use]
            pub const fn since(self, earlier: Self) -> Duration {
                Duration::from_micros(self.0.get().saturating_sub(earlier.0.get()))
            }
        }

        impl Add<Duration> for $time {
            type Output = Self;
            fn add(self, d: Duration) -> Self {
                Self(self.0.saturating_add(micros(d)))
            }
        }

        impl Sub<Duration> for $time {
            type Output = Self;
            fn sub(self, d: Duration) -> Self {
                Self::from_micros(self.as_micros().saturating_sub(micros(d)))
            }
        }

        impl Default for $time {
            fn default() -> Self {
                Self::from_micros(0)
            }
        }
    };
}

/// A moment of this process: microseconds since its [`Clock`](crate::clock::Clock) was created. It never steps, and
/// on Linux and Android it advances while the machine is suspended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(NonZeroU64);

counts_micros!(Moment);

impl Moment {
    /// The creation of the clock.
    pub const START: Self = Self::from_micros(0);
    /// A moment that is never reached.
    pub const NEVER: Self = Self::from_micros(u64::MAX);
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => write!(f, "never"),
            Self(_) => write!(f, "{}.{:06} s", self.as_micros() / 1_000_000, self.as_micros() % 1_000_000),
        }
    }
}

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

/// Waits that double from `initial` up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    taken: u32,
}

impl Backoff {
    /// Creates a back-off that starts at `initial`.
    #[must_use]
    pub const fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, taken: 0 }
    }

    /// Returns the next wait.
    pub fn next_wait(&mut self) -> Duration {
        let wait = self.after(self.taken);
        self.taken = self.taken.saturating_add(1);
        wait
    }

    /// Returns the wait after this many earlier ones.
    #[must_use]
    pub fn after(&self, earlier: u32) -> Duration {
        self.initial.saturating_mul(1 << earlier.min(20)).min(self.max)
    }

    /// Starts over at the first wait.
    pub fn reset(&mut self) {
        self.taken = 0;
    }
}

/// Returns the year, the month and the day of the proleptic Gregorian calendar, `days` after 1 January 1970.
///
/// Source: Howard Hinnant, *chrono-Compatible Low-Level Date Algorithms*, `civil_from_days`.
const fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that a leap day ends its year. Each 400 years have the same number of days.
    let since = days + 719_468; // 1 March of the year 0
    let (era, day_of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * era + year_of_era;
    (if month <= 2 { year + 1 } else { year }, month, day)
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

    #[test]
    fn delays_double_up_to_the_maximum_and_start_again() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(150));
        let mut waits = || [(); 3].map(|()| backoff.next_wait().as_millis());
        assert_eq!(waits(), [50, 100, 150]);
        assert_eq!(waits(), [150, 150, 150]);
        backoff.reset();
        assert_eq!(backoff.next_wait().as_millis(), 50);
    }

    #[test]
    fn each_day_follows_the_previous_one() {
        let is_leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(date(days), (year, month, day));
            let last = match month {
                2 => 28 + u64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                _ if day == last => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
        assert!(year > 2500);
    }
}
