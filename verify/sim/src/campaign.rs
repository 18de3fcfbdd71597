//! Runs of many seeds on two threads, and their summary.

use crate::{
    plan::Topology,
    run::{Failure, Report, run},
};
use lock_testkit::{Seed, planted::PlantedBug};
use std::{
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

const THREADS: usize = 2;

/// The summary of many runs.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// The number of runs.
    pub runs: u64,
    /// The sums of the reports, except for waits, of which only the longest is kept.
    pub sum: Report,
    /// The smallest number of events in a run.
    pub fewest_events: u64,
    /// The failures, in the order in which they were found.
    pub failures: Vec<Failure>,
}

impl Tally {
    fn add(&mut self, result: Result<Report, Failure>) {
        self.runs += 1;
        let report = match result {
            Ok(report) => report,
            Err(failure) => return self.failures.push(failure),
        };
        let sum = &mut self.sum;
        sum.events += report.events;
        sum.grants += report.grants;
        sum.losses += report.losses;
        sum.time += report.time;
        sum.worst_wait = sum.worst_wait.max(report.worst_wait);
        self.fewest_events = match self.fewest_events {
            0 => report.events,
            fewest => fewest.min(report.events),
        };
        for (what, count) in report.counts {
            *sum.counts.entry(what).or_default() += count;
        }
    }
}

/// Runs these seeds, and stops at the first failures.
#[must_use]
pub fn campaign(topology: Topology, seeds: &[Seed], bug: Option<PlantedBug>) -> Tally {
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            let result =
                catch_unwind(AssertUnwindSafe(|| run(topology, seed, bug))).unwrap_or_else(|panic| {
                    let what =
                        panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".to_owned());
                    Err(Failure { seed, what, trace: String::new() })
                });
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.add(result);
            if !tally.failures.is_empty() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { events, grants, losses, time, worst_wait, counts, .. } = &self.sum;
        let hours = time / 3_600_000_000;
        let counts: BTreeMap<_, _> = counts.iter().collect();
        write!(
            f,
            "{} runs, {events} events (at least {} each), {hours} virtual hours: {grants} holds, {losses} lost, \
             worst wait in the calm {} ms; {counts:?}",
            self.runs,
            self.fewest_events,
            worst_wait / 1_000,
        )
    }
}
