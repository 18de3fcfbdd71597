//! The result of a load: outcomes, latencies, and the achieved rate.

use super::{Entry, Latency, Outcome};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Tolerated relative difference between the achieved and the requested rate.
const TOLERANCE: f64 = 0.02;

/// The result of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of orders by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Number of acknowledged orders.
    pub acknowledged: u64,
    /// Time from the start to the last response, in seconds.
    pub seconds: f64,
    /// Acknowledged orders per second.
    pub throughput: f64,
    /// Latency of all orders, including refused ones and those without a response.
    pub latency: Latency,
    /// Latency of acknowledged orders.
    pub acknowledged_latency: Latency,
    /// Rate of an open model; `None` for a closed model.
    pub rate: Option<Rate>,
}

/// The arrival rate of an open model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Requested orders per second.
    pub requested: f64,
    /// Sent orders per second.
    pub achieved: f64,
    /// Longest delay between the intended and the actual start of an order, in milliseconds. It is included in the
    /// latency.
    pub max_lag_ms: f64,
}

impl Rate {
    /// Returns `true` if the achieved rate is within 2 % of the requested one.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        ((self.achieved - self.requested) / self.requested).abs() <= TOLERANCE
    }
}

impl Summary {
    /// Summarizes the orders that were sent within `elapsed`.
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

    /// Returns `true` if the requested rate was achieved. This is always the case for a closed model.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.rate.as_ref().is_none_or(Rate::is_valid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_off_by_more_than_two_percent_is_invalid() {
        for (achieved, valid) in [(100.0, true), (98.1, true), (97.9, false), (102.1, false)] {
            assert_eq!(Rate { requested: 100.0, achieved, max_lag_ms: 0.0 }.is_valid(), valid, "{achieved}");
        }
    }
}
