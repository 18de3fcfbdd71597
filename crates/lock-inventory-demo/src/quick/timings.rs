//! The wait and hold times of locks, from the layer's events.

use hdrhistogram::Histogram;
use lock_tower::observer::{LayerEvent, LayerObserver};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Histograms of the wait and hold times, in microseconds.
#[derive(Debug)]
pub(super) struct Timings {
    waits: Mutex<Histogram<u64>>,
    holds: Mutex<Histogram<u64>>,
}

/// Maximum recorded time, in microseconds. Longer times are recorded as this value.
const MAX_MICROS: u64 = 600_000_000;

fn histogram() -> Mutex<Histogram<u64>> {
    Mutex::new(Histogram::new_with_bounds(1, MAX_MICROS, 3).expect("the constant bounds are valid"))
}

impl Default for Timings {
    fn default() -> Self {
        Self { waits: histogram(), holds: histogram() }
    }
}

impl Timings {
    /// Returns the histogram of the wait times.
    pub(super) fn waits(&self) -> Histogram<u64> {
        locked(&self.waits).clone()
    }

    /// Returns the mean hold time, or zero if no lock was held.
    pub(super) fn mean_hold(&self) -> Duration {
        Duration::from_secs_f64(locked(&self.holds).mean() / 1e6)
    }
}

impl LayerObserver for Timings {
    fn on_event(&self, event: &LayerEvent<'_>) {
        let (histogram, time) = match event {
            LayerEvent::Acquired { waited, .. } => (&self.waits, waited),
            LayerEvent::Ended { held, .. } => (&self.holds, held),
            _ => return,
        };
        locked(histogram).saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
}

fn locked(histogram: &Mutex<Histogram<u64>>) -> MutexGuard<'_, Histogram<u64>> {
    histogram.lock().unwrap_or_else(PoisonError::into_inner)
}
