//! The conversion of local times to instants: the local times that match a pattern, and the meaning of a pattern where
//! the clocks change.
//!
//! A zone is a sequence of segments, each with one offset. Inside a segment a local time is one instant. Between two
//! segments, local times are either skipped (a gap) or occur twice (a fold). Patterns with a star follow the local
//! clock; fixed times follow the [`DstPolicy`]. The set of runs therefore does not depend on where a search starts: a
//! search can be resumed anywhere, and no run occurs twice.
//!
//! croner searches in civil time, ignoring all offset changes. It can search in zones by itself, but it treats
//! `0,30 2 * * *` as an interval, which it skips in spring.

use super::zone::{Segment, Wall, Zone};
use croner::{Cron, Weekday};
use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::Offset,
};

/// The policy for runs at a time of day that does not exist or occurs twice because of a clock
/// change.
///
/// It applies to *fixed* times, with a star in neither the minute nor the hour (`30 2 * * *`,
/// `0,30 1-3 * * *`). A pattern with a star there (`*/15 * * * *`, `0 * * * *`, `*/15 2 * * *`,
/// `H/15 * * * *`) follows real time regardless of the policy: it runs in both passes of a repeated
/// hour, and does not run at skipped times.
///
/// ```
/// use lock_cron::{DstPolicy, Fold, Gap, Schedule};
///
/// let daily = Schedule::cron("30 2 * * *")?.in_tz("Europe/Berlin")?;
/// let shifted = daily.clone().on_dst(DstPolicy { gap: Gap::ShiftForward, fold: Fold::First });
///
/// // On 29 March 2026 the clocks went from 02:00 to 03:00, at 01:00 UTC.
/// let noon_before = lock_cron::UtcTime::from_millis(1_774_695_600_000);
/// assert_eq!(daily.next_after(noon_before).unwrap().to_string(), "2026-03-29T01:00:00Z"); // 03:00
/// assert_eq!(shifted.next_after(noon_before).unwrap().to_string(), "2026-03-29T01:30:00Z"); // 03:30
/// # Ok::<(), lock_cron::ScheduleError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DstPolicy {
    /// The policy for times that do not exist.
    pub gap: Gap,
    /// The policy for times that occur twice.
    pub fold: Fold,
}

/// The policy for runs at fixed times that are skipped, usually an hour in spring.
///
/// ```
/// assert_eq!(lock_cron::Gap::default(), lock_cron::Gap::RunOnce);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Gap {
    /// One run right after the gap, regardless of the number of skipped times. The default. Vixie
    /// cron runs a job once per skipped time, so `0,30 2 * * *` runs twice.
    #[default]
    RunOnce,
    /// No run that day.
    Skip,
    /// Each run is shifted by the length of the gap: 02:30 becomes 03:30.
    ShiftForward,
}

/// The policy for runs at fixed times that occur twice, usually an hour in autumn.
///
/// ```
/// assert_eq!(lock_cron::Fold::default(), lock_cron::Fold::First);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Fold {
    /// One run, in the first pass. The default.
    #[default]
    First,
    /// One run, in the second pass.
    Last,
    /// One run in each pass.
    Both,
}

// Codes for fingerprints, which must stay the same when variants are added.
impl Gap {
    pub(crate) const fn code(self) -> i64 {
        match self {
            Self::RunOnce => 0,
            Self::Skip => 1,
            Self::ShiftForward => 2,
        }
    }
}

impl Fold {
    pub(crate) const fn code(self) -> i64 {
        match self {
            Self::First => 0,
            Self::Last => 1,
            Self::Both => 2,
        }
    }
}

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

/// The maximum distance in seconds between a local time and its instant. No offset exceeds a day,
/// and the longest gap was also a day (Samoa, 2011).
const REACH: i64 = 48 * 60 * 60;

/// One search for the next run.
pub(crate) struct Calendar<'a> {
    pub(crate) civil: &'a Civil,
    pub(crate) zone: &'a Zone,
    pub(crate) policy: DstPolicy,
    /// `true` for a pattern with a star in minute or hour, which follows real time.
    pub(crate) interval: bool,
}

impl Calendar<'_> {
    /// Returns the first run after the second `after`.
    pub(crate) fn next_after(&self, after: i64) -> Option<i64> {
        let mut found: Option<i64> = None;
        // A run that a gap shifts forward may lie in a segment after the one that follows the gap.
        let mut segment = self.zone.segment_at(after.saturating_sub(REACH));
        loop {
            let shifted = self.skipped(&segment, after);
            let shown = self.shown(&segment, after);
            found = [found, shifted, shown].into_iter().flatten().min();
            // No run of a later segment precedes the beginning of that segment.
            match self.next_segment(&segment) {
                Some(next) if found.is_none_or(|found| next.start <= found) => segment = next,
                _ => return found,
            }
        }
    }

    /// Returns the next segment that may have a run. Skips segments without one, since a pattern may not match for
    /// years.
    fn next_segment(&self, segment: &Segment) -> Option<Segment> {
        let next = self.zone.after(segment)?;
        // After this point no earlier local time occurs, not even in a fold.
        let wall = self.civil.at_or_after(next.start.saturating_sub(REACH))?;
        Some(self.zone.segment_at(next.start.max(wall.saturating_sub(REACH))))
    }

    /// Returns the first run after `after` at a local time of this segment.
    fn shown(&self, segment: &Segment, after: i64) -> Option<i64> {
        let mut from = segment.start.max(after.saturating_add(1));
        loop {
            let wall = self.civil.at_or_after(segment.wall(from))?;
            let instant = segment.instant(wall);
            if instant >= segment.end {
                return None;
            }
            match self.other_pass(segment, wall) {
                None => return Some(instant),
                Some(other) => from = segment.instant(other.wall(other.end)),
            }
        }
    }

    /// Returns the other segment with the same local time, if the run belongs to that one.
    fn other_pass(&self, segment: &Segment, wall: Wall) -> Option<Segment> {
        let instant = segment.instant(wall);
        let other = match self.policy.fold {
            _ if self.interval => None,
            Fold::First if instant.saturating_sub(REACH) < segment.start => self.zone.before(segment),
            Fold::Last if instant.saturating_add(REACH) > segment.end => self.zone.after(segment),
            Fold::First | Fold::Last | Fold::Both => None,
        };
        other.filter(|other| other.shows(wall))
    }

    /// Returns the first run after `after` at a local time that is skipped at the beginning of this segment.
    fn skipped(&self, segment: &Segment, after: i64) -> Option<i64> {
        let over = segment.start.saturating_add(REACH) <= after;
        if over || self.interval || self.policy.gap == Gap::Skip {
            return None;
        }
        let before = self.zone.before(segment)?;
        let (skipped, end) = (before.wall(segment.start), segment.wall(segment.start));
        let first = match self.policy.gap {
            Gap::ShiftForward => skipped.max(before.wall(after.saturating_add(1))),
            Gap::RunOnce | Gap::Skip => skipped,
        };
        if first >= end {
            return None;
        }
        let wall = self.civil.at_or_after(first).filter(|wall| *wall < end)?;
        let instant = match self.policy.gap {
            Gap::ShiftForward => before.instant(wall),
            Gap::RunOnce | Gap::Skip => segment.start,
        };
        (instant > after).then_some(instant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    const HOUR: i64 = 60 * 60;
    const DAY: i64 = 24 * HOUR;

    /// A fictitious zone: on 10 January the clocks jump from 00:00 to 10:00, and five hours later they jump back.
    fn absurd() -> Zone {
        Zone(TimeZone::posix("STD0DST-10,J10/0,J10/15").unwrap())
    }

    fn runs(zone: &Zone, numbers: &str, policy: DstPolicy) -> Vec<i64> {
        let civil = &Civil::new(numbers).unwrap();
        let calendar = Calendar { civil, zone, policy, interval: false };
        let (from, until) = (8 * DAY, 11 * DAY);
        let mut runs = vec![];
        while let Some(run) = calendar.next_after(*runs.last().unwrap_or(&from)).filter(|run| *run < until) {
            runs.push(run);
        }
        for after in (from..until).step_by(600) {
            let next = runs.iter().copied().find(|run| *run > after);
            assert_eq!(calendar.next_after(after).filter(|run| *run < until), next, "after {after}");
        }
        runs
    }

    #[test]
    fn long_gap_neither_loses_nor_repeats_a_run() {
        let [shifted, once] = [Gap::ShiftForward, Gap::RunOnce].map(|gap| {
            let policy = DstPolicy { gap, fold: Fold::First };
            let hours = runs(&absurd(), "0 30 2,8,12 * * * *", policy);
            hours.into_iter().filter(|run| *run >= 9 * DAY).map(|run| run - 9 * DAY).collect::<Vec<_>>()
        });
        // 02:30 and 08:30 are skipped. 12:30 is shown at 02:30 UTC, and 08:30 and 12:30 are shown (again) after 05:00
        // UTC.
        let half = HOUR / 2;
        let next_day = [2 * HOUR + half, 8 * HOUR + half, 12 * HOUR + half].map(|run| run + DAY);
        assert_eq!(shifted, [&[2 * HOUR + half, 8 * HOUR + half][..], &next_day].concat());
        assert_eq!(once, [&[0, 2 * HOUR + half, 8 * HOUR + half][..], &next_day].concat());
    }

    #[test]
    fn long_fold_is_not_skipped() {
        // The five-hour summer begins at 10:00 and is followed by 05:00.
        let policy = DstPolicy { gap: Gap::Skip, fold: Fold::First };
        assert_eq!(runs(&absurd(), "0 30 8 10 1 * 1970", policy), [9 * DAY + 8 * HOUR + HOUR / 2]);
    }

    #[test]
    fn search_ends_at_the_end_of_time() {
        let civil = &Civil::new("0 0 2 * * * *").unwrap();
        for zone in [Zone::UTC, absurd()] {
            let calendar = Calendar { civil, zone: &zone, policy: DstPolicy::default(), interval: false };
            assert_eq!(calendar.next_after(i64::MAX), None);
            assert!(calendar.next_after(i64::MIN).is_some_and(|run| run > i64::MIN));
        }
    }
}
