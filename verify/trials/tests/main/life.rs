//! The life of an instance: its instants, and the check that each of them, and no other, was started.

use crate::{fleet::Fleet, store::Decided};
use lock_trials::{line::now, process::PATIENCE};
use std::{
    collections::{BTreeMap, BTreeSet},
    thread::sleep,
    time::{Duration, Instant},
};

/// Returns the server's time, which is that of this machine, in milliseconds.
pub(crate) fn now_ms() -> u64 {
    now() / 1_000
}

/// The life of an instance. Times are in milliseconds since the epoch.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// The seconds of a minute at which it is due: `offset`, `offset + period`, …
    pub(crate) offset: u64,
    pub(crate) period: u64,
    /// The time before the first order to add it, and the time after the last such order was executed.
    pub(crate) ordered: u64,
    pub(crate) added: u64,
    /// The decisions about it at the end of its life.
    pub(crate) decided: Decided,
    /// No instant after this time was started.
    pub(crate) ended: u64,
}

impl Life {
    pub(crate) fn schedule(&self) -> String {
        format!("{}-59/{} * * * * *", self.offset, self.period)
    }

    /// Returns the instants from the end of one second to that of another.
    pub(crate) fn instants(&self, after: u64, to: u64) -> impl Iterator<Item = u64> {
        let (offset, period) = (self.offset, self.period);
        (after / 1_000 + 1..=to / 1_000)
            .filter(move |second| second % period == offset)
            .map(|second| second * 1_000)
    }

    /// Asserts that each instant of its life, and no other, was started. Returns the number of starts, and the number
    /// of those whose process died before reporting them.
    pub(crate) fn judge(&self, name: &str, started: &BTreeSet<u64>) -> (usize, usize) {
        let begun: BTreeSet<_> = started.union(&self.decided.unreported).copied().collect();
        for instant in self.instants(self.added, self.decided.up_to) {
            assert!(begun.contains(&instant), "{instant} of {name} was not started: {self:?}, {started:?}");
        }
        let possible: BTreeSet<_> = self.instants(self.ordered, self.ended).collect();
        assert!(begun.is_subset(&possible), "{name} was started outside of its life: {self:?}, {started:?}");
        (begun.len(), begun.difference(started).count())
    }
}

/// Returns the name of an instance of the nodes' kind.
pub(crate) fn kind(id: &str) -> String {
    format!("kind/{id}")
}

/// Waits until all instants up to now are decided and their runs have ended.
pub(crate) fn wait_until_decided(
    fleet: &Fleet,
    lives: &BTreeMap<String, Life>,
    living: &[String],
    once: &BTreeMap<String, u64>,
) {
    let (now, begin) = (now_ms(), Instant::now());
    let names: Vec<_> = living.iter().map(|id| kind(id)).collect();
    // The last instant of a life is no earlier than its beginning.
    let last = |id: &String| lives[id].instants(lives[id].added, now).last().unwrap_or_default();
    loop {
        let marks = fleet.place.marks(&names);
        let behind = living.iter().zip(marks).filter(|(id, mark)| *mark < last(id)).count();
        let open = fleet.place.open().into_values().flatten().filter(|run| *run <= now).count();
        let defined = fleet.place.defined();
        let waiting = once.keys().filter(|id| defined.contains(&kind(id))).count();
        if (behind, open, waiting) == (0, 0, 0) {
            return;
        }
        assert!(
            begin.elapsed() < PATIENCE,
            "{behind} are behind, {open} are open, {waiting} have not run once"
        );
        sleep(Duration::from_millis(100));
    }
}
