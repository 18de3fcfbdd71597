//! The search for due runs: the ones to start, and the number to skip.
//!
//! The work is bounded. A search goes backwards from now, in windows, until it has found as many
//! scheduled times as the policy starts; earlier ones are counted up to a limit. Each tick has a
//! [`Budget`] for searches; the remaining jobs wait for the next tick.

use crate::{
    options::{JobTerms, Misfire},
    schedule::Schedule,
};
use lock_core::clock::UtcTime;
use lock_ledger::CatchUp;
use std::time::Duration;

/// The time for which the leader leaves a spread run to another node before checking whether that node has claimed it.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// The default grace of a schedule's last run.
pub(super) const LAST_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum number of one job's runs that are started after an outage.
pub(super) const MAX_STARTED: usize = 1_000;

/// The maximum number of runs of one job that are counted as missed in one search.
const MAX_COUNTED: usize = 1_000;

/// The number of schedule searches after which a tick leaves the remaining jobs to the next tick.
const SEARCHES: usize = 2_000;

/// The number of schedule searches that a tick has spent on due runs.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    pub(super) spent: usize,
}

impl Budget {
    pub(super) fn is_spent(&self) -> bool {
        self.spent >= SEARCHES
    }

    /// Returns the scheduled times after `after`, up to and including `until`.
    fn between<'a>(
        &'a mut self,
        schedule: &'a Schedule,
        after: UtcTime,
        until: UtcTime,
    ) -> impl Iterator<Item = UtcTime> + 'a {
        schedule.after(after).inspect(|_| self.spent += 1).take_while(move |at| *at <= until)
    }
}

/// A scheduled time whose run is to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueInstant {
    pub(super) at: UtcTime,
    pub(super) catch_up: CatchUp,
    /// The end of its grace period.
    pub(super) until: UtcTime,
}

#[derive(Debug)]
pub(super) struct LookBack {
    /// In ascending order.
    pub(super) start: Vec<DueInstant>,
    /// The scheduled times before those to start.
    pub(super) skipped: Option<SkippedInstants>,
    /// The first scheduled time in the future.
    pub(super) next: Option<UtcTime>,
}

/// Scheduled times that will not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SkippedInstants {
    pub(super) first: UtcTime,
    /// The last of them, or a later time before the first scheduled time to start.
    pub(super) last: UtcTime,
    pub(super) count: u32,
}

impl SkippedInstants {
    fn one(at: UtcTime) -> Self {
        Self { first: at, last: at, count: 1 }
    }

    fn and(self, at: UtcTime) -> Self {
        Self { last: at, count: self.count.saturating_add(1), ..self }
    }
}

/// Decides whether to start or skip `first`, the only due run; `next` is its successor.
pub(super) fn one(terms: &JobTerms, first: UtcTime, next: Option<UtcTime>, now: UtcTime) -> LookBack {
    decide(terms, vec![first], None, next, now)
}

/// Decides which scheduled times after `cursor` up to `now` to start and which to skip. `distance`
/// is the time between the first two of them.
pub(super) fn look_back(
    schedule: &Schedule,
    terms: &JobTerms,
    cursor: UtcTime,
    now: UtcTime,
    distance: Duration,
    budget: &mut Budget,
) -> LookBack {
    let most = match terms.misfire {
        Misfire::Skip | Misfire::FireOnce => 1,
        Misfire::FireAll { max } => usize::try_from(max).unwrap_or(usize::MAX).clamp(1, MAX_STARTED),
    };
    let latest = latest(schedule, cursor, now, most, distance, budget);
    let before = latest.first().map_or(now, |first| *first - Duration::from_millis(1));
    let mut skipped: Option<SkippedInstants> = None;
    for at in budget.between(schedule, cursor, before).take(MAX_COUNTED) {
        skipped = Some(skipped.map_or(SkippedInstants::one(at), |skipped| skipped.and(at)));
    }
    // Scheduled times beyond the limit are skipped without being counted.
    if let Some(skipped) = skipped.as_mut().filter(|skipped| skipped.count as usize == MAX_COUNTED) {
        skipped.last = before;
    }
    let next = schedule.next_after(now);
    decide(terms, latest, skipped, next, now)
}

/// Returns the grace of a scheduled time; `next` is its successor.
pub(super) fn grace(terms: &JobTerms, at: UtcTime, next: Option<UtcTime>) -> Duration {
    terms.grace.unwrap_or_else(|| next.map_or(LAST_GRACE, |next| next.since(at) / 2))
}

/// Returns the scheduled time before `at`. `distance` is the approximate time between two scheduled
/// times.
pub(crate) fn previous(schedule: &Schedule, at: UtcTime, distance: Duration) -> Option<UtcTime> {
    let (begin, before) = (UtcTime::default(), at - Duration::from_millis(1));
    latest(schedule, begin, before, 1, distance, &mut Budget::default()).pop()
}

/// Decides which of the scheduled times in `come` to start. The last one is late while it is within
/// its grace; all others are missed.
fn decide(
    terms: &JobTerms,
    come: Vec<UtcTime>,
    skipped: Option<SkippedInstants>,
    next: Option<UtcTime>,
    now: UtcTime,
) -> LookBack {
    let Some(last) = come.last().copied() else { return LookBack { start: vec![], skipped, next } };
    let until = last + grace(terms, last, next);
    let is_late = now <= until;
    if !is_late && terms.misfire == Misfire::Skip {
        let skipped = Some(skipped.map_or(SkippedInstants::one(last), |skipped| skipped.and(last)));
        return LookBack { start: vec![], skipped, next };
    }
    let flagged = |at| {
        let catch_up = if is_late && at == last { CatchUp::No } else { CatchUp::Yes };
        DueInstant { at, catch_up, until }
    };
    LookBack { start: come.into_iter().map(flagged).collect(), skipped, next }
}

/// Returns the latest `most` scheduled times after `cursor` up to `now`, ascending.
///
/// Searches windows that end at `now` and grow until one contains enough scheduled times. If a
/// window contains far too many, the next one begins halfway between it and the last one that
/// contained too few.
fn latest(
    schedule: &Schedule,
    cursor: UtcTime,
    now: UtcTime,
    most: usize,
    distance: Duration,
    budget: &mut Budget,
) -> Vec<UtcTime> {
    let mut width = distance.saturating_mul(u32::try_from(most).unwrap_or(u32::MAX));
    let (mut too_many, mut too_few) = (None, now);
    loop {
        let begin = too_many.map_or_else(
            || cursor.max(now - width),
            |too_many: UtcTime| too_many + too_few.since(too_many) / 2,
        );
        let mut found: Vec<_> = budget.between(schedule, begin, now).take(2 * most + 1).collect();
        if found.len() > 2 * most {
            too_many = Some(begin);
        } else if found.len() >= most || begin <= cursor {
            return found.split_off(found.len().saturating_sub(most));
        } else {
            too_few = begin;
            width = width.max(Duration::from_millis(1)).saturating_mul(4);
        }
    }
}
