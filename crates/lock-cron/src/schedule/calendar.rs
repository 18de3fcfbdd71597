//! The conversion of local times to instants, and the meaning of a pattern where the clocks change.
//!
//! A zone is a sequence of segments, each with one offset. Inside a segment a local time is one instant. Between two
//! segments, local times are either skipped (a gap) or occur twice (a fold). Patterns with a star follow the local
//! clock; fixed times follow the [`DstPolicy`]. The set of runs therefore does not depend on where a search starts: a
//! search can be resumed anywhere, and no run occurs twice.
//!
//! croner can search in zones by itself, but it treats `0,30 2 * * *` as an interval, which it skips in spring.

use super::{
    civil::{Civil, Wall},
    dst::{DstPolicy, Fold, Gap},
    zone::{Segment, Zone},
};

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
