//! A bound on the log of a factory. Of each kind of warning, the first few of a period are logged in full, with the name
//! of their lock. Further ones are logged at debug, and one line at the end of the period sums them up. An outage of the
//! store therefore does not write a line for each lock.

use crate::{
    clock::Clock,
    sync::{Mutex, lock, rank},
    time::Moment,
};
use std::{sync::Arc, time::Duration};

/// The time that one line sums up.
const PERIOD: Duration = Duration::from_secs(10);
/// The warnings of each kind that are logged in full in a period.
const IN_FULL: u64 = 5;

/// A kind of warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warning {
    /// The first failed renewal of a hold.
    Suspect,
    Lost,
    Unclaimed,
    Unconfirmed,
    AlreadyEnded,
    SelfDeadlock,
    LongWait,
    TermEnded,
    CampaignFailed,
}

impl Warning {
    const ALL: [Self; 9] = [
        Self::Suspect,
        Self::Lost,
        Self::Unclaimed,
        Self::Unconfirmed,
        Self::AlreadyEnded,
        Self::SelfDeadlock,
        Self::LongWait,
        Self::TermEnded,
        Self::CampaignFailed,
    ];
}

/// The level of one warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The level of its kind.
    InFull,
    /// Debug. The first one of a period says when the period ends.
    AtDebug(Option<Moment>),
}

/// The warnings of a period that were logged at debug.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) warning: Warning,
    pub(crate) count: u64,
    /// The number of all warnings of the period, without repetitions.
    pub(crate) first: u64,
    /// The reason of the latest one.
    pub(crate) reason: String,
}

#[derive(Debug)]
pub(super) struct Digest {
    clock: Arc<dyn Clock>,
    periods: Mutex<rank::Digest, [Period; Warning::ALL.len()]>,
}

#[derive(Debug)]
struct Period {
    ends_at: Moment,
    /// All but repetitions.
    first: u64,
    at_debug: u64,
    reason: String,
}

impl Default for Period {
    fn default() -> Self {
        Self { ends_at: Moment::START, first: 0, at_debug: 0, reason: String::new() }
    }
}

impl Digest {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, periods: Mutex::default() }
    }

    /// Counts a warning, and returns the level at which to log it.
    pub(super) fn admit(&self, warning: Warning, reason: impl FnOnce() -> String) -> Admission {
        let now = self.clock.now();
        let mut periods = lock(&self.periods);
        let period = periods[warning as usize].at(now);
        period.first += 1;
        if period.first <= IN_FULL {
            return Admission::InFull;
        }
        Admission::AtDebug(period.add(reason()))
    }

    /// Counts a repetition of a warning, which is always logged at debug.
    pub(super) fn repeat(&self, warning: Warning, reason: impl FnOnce() -> String) -> Option<Moment> {
        let now = self.clock.now();
        lock(&self.periods)[warning as usize].at(now).add(reason())
    }

    /// Returns the time of the next line that sums up.
    pub(super) fn next(&self) -> Option<Moment> {
        lock(&self.periods).iter().filter(|period| period.at_debug > 0).map(|period| period.ends_at).min()
    }

    /// Returns the warnings to sum up at `now`.
    pub(super) fn take_due(&self, now: Moment) -> Vec<Sum> {
        let mut periods = lock(&self.periods);
        let due = Warning::ALL.into_iter().filter_map(|warning| {
            let period = &mut periods[warning as usize];
            (period.at_debug > 0 && period.ends_at <= now).then(|| {
                let Period { first, at_debug: count, reason, .. } = std::mem::take(period);
                Sum { warning, count, first, reason }
            })
        });
        due.collect()
    }
}

impl Period {
    /// Returns the period at `now`: this one, until its end and until it was summed up, and then a new one.
    fn at(&mut self, now: Moment) -> &mut Self {
        if self.ends_at <= now && self.at_debug == 0 {
            *self = Self { ends_at: now + PERIOD, ..Self::default() };
        }
        self
    }

    /// Returns the end of the period, if this is the first warning at debug.
    fn add(&mut self, reason: String) -> Option<Moment> {
        self.at_debug += 1;
        self.reason = reason;
        (self.at_debug == 1).then_some(self.ends_at)
    }
}
