//! The result of a load: outcomes, latencies, and whether the rate was the one that was asked for.

use super::{Entry, Latency, Outcome};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// How far the achieved rate may be from the requested one.
const TOLERANCE: f64 = 0.02;

/// The result of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many orders ended in which way.
    pub outcomes: BTreeMap<String, u64>,
    /// Acknowledged orders.
    pub acknowledged: u64,
    /// From the begin to the last answer, in seconds.
    pub seconds: f64,
    /// Acknowledged orders per second.
    pub throughput: f64,
    /// The latency of all orders, refused ones and unanswered ones included.
    pub latency: Latency,
    /// The latency of acknowledged orders.
    pub acknowledged_latency: Latency,
    /// The rate of an open model.
    pub rate: Option<Rate>,
}

/// The rate of arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Orders per second that were asked for.
    pub requested: f64,
    /// Orders per second that were sent.
    pub achieved: f64,
    /// The longest delay between the intended and the actual start of an order, in milliseconds. It counts as latency.
    pub max_lag_ms: f64,
}

impl Rate {
    /// Returns whether the load was the one that was asked for: within 2 %.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        ((self.achieved - self.requested) / self.requested).abs() <= TOLERANCE
    }
}

impl Summary {
    /// Sums up the orders that were sent within `elapsed`.
    #[must_use]
    pub fn of(entries: &[Entry], elapsed: Duration, rate: Option<Rate>) -> Self {
        let mut outcomes = BTreeMap::<String, u64>::new();
        for entry in entries {
            *outcomes.entry(entry.outcome.label()).or_default() += 1;
        }
        let is_acknowledged = |entry: &&Entry| matches!(entry.outcome, Outcome::Acknowledged { .. });
        let latency = |entry: &Entry| Duration::from_micros(entry.latency_us);
        let acknowledged = entries.iter().filter(is_acknowledged).count() as u64;
        let seconds = elapsed.as_secs_f64();
        Self {
            outcomes,
            acknowledged,
            seconds,
            throughput: if seconds > 0.0 { acknowledged as f64 / seconds } else { 0.0 },
            latency: Latency::of(entries.iter().map(latency)),
            acknowledged_latency: Latency::of(entries.iter().filter(is_acknowledged).map(latency)),
            rate,
        }
    }

    /// Returns whether the load was the one that was asked for. That of a closed model always is.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.rate.as_ref().is_none_or(Rate::is_valid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_that_is_off_by_more_than_two_percent_is_invalid() {
        for (achieved, valid) in [(100.0, true), (98.1, true), (97.9, false), (102.1, false)] {
            assert_eq!(Rate { requested: 100.0, achieved, max_lag_ms: 0.0 }.is_valid(), valid, "{achieved}");
        }
    }
}
