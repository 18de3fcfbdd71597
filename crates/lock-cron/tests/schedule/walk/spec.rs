//! A pattern as a value of the oracle, and as text.

use super::days::{Day, Weekday};
use jiff::civil::DateTime;
use std::fmt::{self, Display};

/// An item of a numeric field.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Star,
    StarStep(i64),
    Value(i64),
    Range(i64, i64),
    RangeStep(i64, i64, i64),
    ValueStep(i64, i64),
}

impl Item {
    /// Returns `true` if the item matches `value` in a field that begins with `first`.
    pub(crate) fn holds(&self, value: i64, first: i64) -> bool {
        match *self {
            Self::Star => true,
            Self::StarStep(step) => (value - first) % step == 0,
            Self::Value(wanted) => value == wanted,
            Self::Range(from, to) => (from..=to).contains(&value),
            Self::RangeStep(from, to, step) => (from..=to).contains(&value) && (value - from) % step == 0,
            Self::ValueStep(from, step) => value >= from && (value - from) % step == 0,
        }
    }

    pub(crate) fn is_star(&self) -> bool {
        matches!(self, Self::Star | Self::StarStep(_))
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Star => write!(f, "*"),
            Self::StarStep(step) => write!(f, "*/{step}"),
            Self::Value(value) => write!(f, "{value}"),
            Self::Range(from, to) => write!(f, "{from}-{to}"),
            Self::RangeStep(from, to, step) => write!(f, "{from}-{to}/{step}"),
            Self::ValueStep(from, step) => write!(f, "{from}/{step}"),
        }
    }
}

/// A whole pattern. An empty list of seconds or years is an omitted field.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spec {
    pub(crate) seconds: Vec<Item>,
    pub(crate) minutes: Vec<Item>,
    pub(crate) hours: Vec<Item>,
    pub(crate) days: Vec<Day>,
    pub(crate) months: Vec<Item>,
    pub(crate) weekdays: Vec<Weekday>,
    pub(crate) both_days: bool,
    pub(crate) years: Vec<Item>,
}

impl Spec {
    pub(crate) fn follows_real_time(&self) -> bool {
        self.minutes.iter().chain(&self.hours).any(Item::is_star)
    }

    pub(crate) fn seconds(&self) -> impl Iterator<Item = i64> {
        (0..60).filter(|second| match self.seconds.is_empty() {
            true => *second == 0,
            false => any(&self.seconds, *second, 0),
        })
    }

    /// Returns `true` if the pattern matches the minute.
    pub(crate) fn matches(&self, wall: DateTime) -> bool {
        any(&self.minutes, wall.minute().into(), 0)
            && any(&self.hours, wall.hour().into(), 0)
            && any(&self.months, wall.month().into(), 1)
            && (self.years.is_empty() || any(&self.years, wall.year().into(), 1970))
            && self.matches_day(wall)
    }

    fn matches_day(&self, wall: DateTime) -> bool {
        let free = (self.days.iter().any(Day::is_free), self.weekdays.iter().any(Weekday::is_free));
        let day = self.days.iter().any(|day| day.holds(wall.date()));
        let weekday = self.weekdays.iter().any(|weekday| weekday.holds(wall.date()));
        match free {
            (false, false) if !self.both_days => day || weekday,
            _ => day && weekday,
        }
    }
}

fn any(items: &[Item], value: i64, first: i64) -> bool {
    items.iter().any(|item| item.holds(value, first))
}

fn list<T: Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

impl Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.seconds.is_empty() {
            write!(f, "{} ", list(&self.seconds))?;
        }
        let plus = if self.both_days { "+" } else { "" };
        let (days, weekdays) = (list(&self.days), list(&self.weekdays));
        write!(f, "{} {} {days} ", list(&self.minutes), list(&self.hours))?;
        write!(f, "{} {plus}{weekdays}", list(&self.months))?;
        if !self.years.is_empty() {
            write!(f, " {}", list(&self.years))?;
        }
        Ok(())
    }
}
