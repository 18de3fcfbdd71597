//! The local times that match a pattern, ignoring all offset changes. The search is croner's, over civil time.

use croner::{Cron, Weekday};
use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::Offset,
};

/// A local time, in seconds: the reading of a local clock, interpreted as UTC.
pub(crate) type Wall = i64;

/// The first year that is searched; both jiff and croner support later ones.
const FIRST_YEAR: i16 = 1;

/// A numeric pattern to search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Civil(Cron);

impl Civil {
    /// Returns `None` if croner rejects the pattern, which would be a bug in our grammar.
    pub(crate) fn new(numbers: &str) -> Option<Self> {
        numbers.parse().ok().map(Self)
    }

    pub(crate) fn numbers(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the pattern in words.
    pub(crate) fn describe(&self) -> String {
        self.0.describe()
    }

    /// Returns the first match at `from` or later; `None` if there is none up to the year 5000.
    pub(crate) fn at_or_after(&self, from: Wall) -> Option<Wall> {
        let first = seconds(Date::constant(FIRST_YEAR, 1, 1).to_datetime(jiff::civil::Time::midnight()))?;
        let from = Offset::UTC.to_datetime(Timestamp::from_second(from.max(first)).ok()?);
        seconds(self.0.find_next_occurrence(&from, true).ok()?)
    }

    /// Returns `true` if any date matches. There are fourteen kinds of years, by length and first weekday, so only a
    /// few years have to be searched.
    pub(crate) fn matches_a_date(&self) -> bool {
        let mut kinds = std::collections::BTreeSet::new();
        self.0.pattern.years.values().into_iter().filter_map(|year| Date::new(year as i16, 1, 1).ok()).any(
            |first| {
                let kind = (first.in_leap_year(), first.weekday().to_sunday_zero_offset());
                kinds.insert(kind) && self.matches_in(first)
            },
        )
    }

    fn matches_in(&self, first: Date) -> bool {
        let days = std::iter::successors(Some(first), |day| day.tomorrow().ok());
        days.take_while(|day| day.year() == first.year()).any(|day| {
            let weekday = Weekday::from_days_from_sunday(day.weekday().to_sunday_zero_offset() as u32);
            let (year, month, date) = (i32::from(day.year()), day.month() as u32, day.day() as u32);
            let pattern = &self.0.pattern;
            pattern.month_match(month).unwrap_or(false)
                && pattern.day_match(year, month, date, weekday).unwrap_or(false)
        })
    }
}

fn seconds(time: DateTime) -> Option<Wall> {
    Offset::UTC.to_timestamp(time).ok().map(Timestamp::as_second)
}
