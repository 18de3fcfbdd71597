//! The days of a pattern in the oracle, which always searches the whole month.

use super::spec::Item;
use jiff::civil::Date;
use std::fmt::{self, Display};

/// An item of the days of the month.
#[derive(Debug, Clone)]
pub(crate) enum Day {
    Plain(Item),
    Last,
    LastWorkday,
    NearestWorkday(i8),
}

/// An item of the days of the week.
#[derive(Debug, Clone)]
pub(crate) enum Weekday {
    Plain(Item),
    /// A weekday by its English name.
    Named(i8),
    Nth(i8, i8),
    LastOf(i8),
}

fn month(of: Date) -> impl Iterator<Item = Date> {
    of.first_of_month().series(jiff::ToSpan::days(1)).take(of.days_in_month() as usize)
}

fn is_workday(date: Date) -> bool {
    (1..=5).contains(&date.weekday().to_monday_one_offset())
}

impl Day {
    pub(crate) fn is_free(&self) -> bool {
        matches!(self, Self::Plain(Item::Star))
    }

    pub(crate) fn holds(&self, date: Date) -> bool {
        match self {
            Self::Plain(item) => item.holds(date.day().into(), 1),
            Self::Last => month(date).last() == Some(date),
            Self::LastWorkday => month(date).filter(|date| is_workday(*date)).last() == Some(date),
            Self::NearestWorkday(day) => {
                let distance = |date: &Date| (date.day() - day).abs();
                let exists = *day <= date.days_in_month();
                exists && month(date).filter(|date| is_workday(*date)).min_by_key(distance) == Some(date)
            }
        }
    }
}

impl Weekday {
    pub(crate) fn is_free(&self) -> bool {
        matches!(self, Self::Plain(Item::Star))
    }

    pub(crate) fn holds(&self, date: Date) -> bool {
        let is = |date: Date, day: i8| date.weekday().to_sunday_zero_offset() == day % 7;
        match self {
            // Sunday is both the first and the last day, but a step without an end stops on Saturday.
            Self::Plain(item) => {
                let day = i64::from(date.weekday().to_sunday_zero_offset());
                item.holds(day, 0) || (day == 0 && !matches!(item, Item::ValueStep(..)) && item.holds(7, 0))
            }
            Self::Named(day) => is(date, *day),
            Self::Nth(day, nth) => {
                let mut days = month(date).filter(|date| is(*date, *day));
                days.nth(*nth as usize - 1) == Some(date)
            }
            Self::LastOf(day) => month(date).filter(|date| is(*date, *day)).last() == Some(date),
        }
    }
}

impl Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(item) => write!(f, "{item}"),
            Self::Last => write!(f, "L"),
            Self::LastWorkday => write!(f, "LW"),
            Self::NearestWorkday(day) => write!(f, "{day}W"),
        }
    }
}

impl Display for Weekday {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(item) => write!(f, "{item}"),
            Self::Named(day) => {
                write!(f, "{}", ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"][*day as usize])
            }
            Self::Nth(day, nth) => write!(f, "{day}#{nth}"),
            Self::LastOf(day) => write!(f, "{day}L"),
        }
    }
}
