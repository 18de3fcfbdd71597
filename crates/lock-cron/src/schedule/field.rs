//! The fields of a pattern, and their value ranges.

use std::fmt;

/// A field of a cron pattern.
///
/// ```
/// assert_eq!(lock_cron::schedule::Field::DayOfWeek.to_string(), "day of the week");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// 0-59; the first of six or seven fields.
    Second,
    /// 0-59.
    Minute,
    /// 0-23.
    Hour,
    /// 1-31, `L`, `LW`, `15W`.
    DayOfMonth,
    /// 1-12 or JAN-DEC.
    Month,
    /// 0-7 or SUN-SAT, where both 0 and 7 are Sunday; `MON#2`, `FRIL`.
    DayOfWeek,
    /// 1970-5000; the last of seven fields.
    Year,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Field {
    pub(crate) const fn first(self) -> u16 {
        match self {
            Self::Second | Self::Minute | Self::Hour | Self::DayOfWeek => 0,
            Self::DayOfMonth | Self::Month => 1,
            Self::Year => 1970,
        }
    }

    pub(crate) const fn last(self) -> u16 {
        match self {
            Self::Second | Self::Minute => 59,
            Self::Hour => 23,
            Self::DayOfMonth => 31,
            Self::Month => 12,
            Self::DayOfWeek => 7,
            Self::Year => 5000,
        }
    }

    /// Returns the upper bound of a bare `H`: a day that every month has, and 6 for days of the week, so that Sunday is
    /// not counted twice.
    pub(crate) const fn last_hashed(self) -> u16 {
        match self {
            Self::DayOfMonth => 28,
            other => other.last_in_turn(),
        }
    }

    /// Returns the last value of an open-ended step such as `1/2`. For days of the week it is 6, so
    /// that Sunday is not counted twice.
    pub(crate) const fn last_in_turn(self) -> u16 {
        match self {
            Self::DayOfWeek => 6,
            other => other.last(),
        }
    }

    pub(crate) const fn allowed(self) -> &'static str {
        match self {
            Self::Second | Self::Minute => "0-59",
            Self::Hour => "0-23",
            Self::DayOfMonth => "1-31, `L`, `LW` or `15W`",
            Self::Month => "1-12 or JAN-DEC",
            Self::DayOfWeek => "0-7, SUN-SAT, `MON#2` or `FRIL`",
            Self::Year => "1970-5000",
        }
    }

    pub(crate) fn names(self) -> (&'static [&'static str], u16) {
        match self {
            Self::Month => (&MONTHS, 1),
            Self::DayOfWeek => (&DAYS, 0),
            _ => (&[], 0),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of the month",
            Self::Month => "month",
            Self::DayOfWeek => "day of the week",
            Self::Year => "year",
        })
    }
}
