//! The oracle: the local clock, minute by minute, with every minute compared to the pattern.
//!
//! The only code it shares with the crate is jiff's conversion from an instant to local time: it has no segments, no
//! search, and its own parser of fields.

mod days;
mod random;
mod spec;

pub(crate) use random::policy;
pub(crate) use spec::Spec;

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};
use lock_cron::{DstPolicy, Fold, Gap};
use std::collections::{BTreeMap, BTreeSet};

/// The hours of the walk before and after a transition.
const HOURS: i64 = 16;

/// Every minute around an instant.
pub(crate) struct Window {
    pub(crate) start: i64,
    pub(crate) end: i64,
    minutes: Vec<Minute>,
}

struct Minute {
    /// UTC, in seconds.
    at: i64,
    wall: DateTime,
    /// Set if the local clock shows this time more than once in this window.
    shown_before: bool,
    shown_again: bool,
    /// The local times that were skipped just before this minute.
    skipped: Vec<DateTime>,
}

impl Window {
    pub(crate) fn around(instant: Timestamp, zone: &TimeZone) -> Self {
        let middle = instant.as_second().div_euclid(60) * 60;
        let (start, end) = (middle - HOURS * 3600, middle + HOURS * 3600);
        let wall = |at: i64| zone.to_datetime(Timestamp::from_second(at).unwrap());
        let mut minutes: Vec<Minute> = Vec::new();
        for at in (start..end).step_by(60) {
            let (wall, before) = (wall(at), wall(at - 60));
            assert_eq!(wall.second(), 0, "offsets of these years are whole minutes");
            let mut skipped = Vec::new();
            let mut next = before + SignedDuration::from_mins(1);
            while next < wall {
                skipped.push(next);
                next += SignedDuration::from_mins(1);
            }
            minutes.push(Minute { at, wall, shown_before: false, shown_again: false, skipped });
        }
        let mut seen: BTreeMap<DateTime, usize> = BTreeMap::new();
        for now in 0..minutes.len() {
            if let Some(before) = seen.insert(minutes[now].wall, now) {
                minutes[now].shown_before = true;
                minutes[before].shown_again = true;
            }
        }
        Self { start, end, minutes }
    }

    /// Returns `true` if no local time occurs twice or is skipped.
    pub(crate) fn is_plain(&self) -> bool {
        self.minutes.iter().all(|minute| !minute.shown_before && minute.skipped.is_empty())
    }

    /// Returns the local times one minute before the transition, and at it.
    pub(crate) fn middle(&self) -> [DateTime; 2] {
        let middle = self.minutes.len() / 2;
        [self.minutes[middle - 1].wall, self.minutes[middle].wall]
    }

    /// Returns the runs in the window, in seconds of UTC.
    pub(crate) fn runs(&self, spec: &Spec, policy: DstPolicy) -> Vec<i64> {
        let fixed = !spec.follows_real_time();
        let mut runs = BTreeSet::new();
        for minute in &self.minutes {
            let other_pass = match policy.fold {
                Fold::First => minute.shown_before,
                Fold::Last => minute.shown_again,
                _ => false,
            };
            if spec.matches(minute.wall) && !(fixed && other_pass) {
                runs.extend(spec.seconds().map(|second| minute.at + second));
            }
            for (nth, skipped) in (0..).zip(&minute.skipped) {
                if !fixed || !spec.matches(*skipped) {
                    continue;
                }
                match policy.gap {
                    Gap::ShiftForward => {
                        runs.extend(spec.seconds().map(|second| minute.at + nth * 60 + second));
                    }
                    Gap::RunOnce => drop(runs.insert(minute.at)),
                    _ => {}
                }
            }
        }
        runs.into_iter().collect()
    }
}
