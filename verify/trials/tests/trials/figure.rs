//! The measurements of a trial, and the table of all trials.

use lock_testkit::Seed;
use std::{
    fmt::Display,
    panic::resume_unwind,
    sync::{
        Mutex, PoisonError,
        mpsc::{RecvTimeoutError, channel},
    },
    time::{Duration, Instant},
};

/// Repeats a fault, panics if a guarantee was violated, and returns the worst measurements.
pub(crate) type Trial = fn(&Run) -> Vec<Figure>;

/// The extent of a run, and its source of randomness.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    long: bool,
    pub(crate) seed: Seed,
}

impl Run {
    /// Asserts a bound on a time in long runs, on an otherwise idle machine. Short runs must pass on a busy one.
    pub(crate) fn bound(&self, worst: Duration, bound: Duration) {
        assert!(!self.long || worst <= bound, "{worst:?} exceeds the bound of {bound:?}");
    }

    /// Returns the number for short or for long runs.
    pub(crate) fn times<T>(&self, short: T, long: T) -> T {
        if self.long { long } else { short }
    }
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Figure {
    /// The fault.
    pub(crate) what: String,
    /// The number of repetitions.
    pub(crate) times: String,
    /// The requirement.
    pub(crate) bound: String,
    /// The worst observation.
    pub(crate) worst: String,
}

impl Figure {
    pub(crate) fn new(
        what: impl Into<String>,
        times: impl Display,
        bound: impl Into<String>,
        worst: impl Into<String>,
    ) -> Self {
        Self { what: what.into(), times: times.to_string(), bound: bound.into(), worst: worst.into() }
    }
}

/// All rows of a run.
#[derive(Debug)]
pub(crate) struct Table {
    run: Run,
    begun: Instant,
    rows: Mutex<Vec<Figure>>,
}

impl Table {
    pub(crate) fn of_this_run() -> Self {
        let run = Run { long: std::env::var_os("LOCK_LONG").is_some(), seed: Seed::of_this_run() };
        Self { run, begun: Instant::now(), rows: Mutex::default() }
    }

    /// Runs a trial. One that fails or hangs panics and has no row.
    pub(crate) fn fill(&self, trial: Trial) {
        let (run, (done, is_done)) = (self.run, channel());
        let trying = std::thread::spawn(move || {
            let rows = trial(&run);
            let _ = done.send(());
            rows
        });
        let patience = Duration::from_secs(run.times(600, 2_700));
        assert_ne!(is_done.recv_timeout(patience), Err(RecvTimeoutError::Timeout), "the trial hangs");
        let rows = trying.join().unwrap_or_else(|panic| resume_unwind(panic));
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).extend(rows);
    }

    pub(crate) fn print(&self) {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.is_empty() {
            return;
        }
        println!("| fault | runs | requirement | worst observed |\n| --- | ---: | --- | --- |");
        for Figure { what, times, bound, worst } in rows.iter() {
            println!("| {what} | {times} | {bound} | {worst} |");
        }
        let form = self.run.times("short", "long");
        println!("\n{form} form, {}={}, {:.0?}", Seed::VARIABLE, self.run.seed, self.begun.elapsed());
    }
}

/// Formats a time in ms for a cell.
pub(crate) fn ms(time: Duration) -> String {
    match time.as_secs_f64() * 1e3 {
        millis if millis < 1.0 => format!("{millis:.2} ms"),
        millis if millis < 10.0 => format!("{millis:.1} ms"),
        millis => format!("{millis:.0} ms"),
    }
}
