//! The result of a load: outcomes, latencies, and the achieved rate. Latencies come from a histogram with three significant
//! digits.

use super::{Entry, Outcome};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Tolerated relative difference between the achieved and the requested rate.
const TOLERANCE: f64 = 0.02;
/// One hour, in microseconds. Longer latencies count as one hour.
const MAX: u64 = 3_600_000_000;

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

/// The distribution of latencies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of latencies.
    pub count: u64,
    /// Median, in milliseconds.
    pub p50_ms: f64,
    /// 90th percentile, in milliseconds.
    pub p90_ms: f64,
    /// 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// 99.9th percentile, in milliseconds.
    pub p999_ms: f64,
    /// Maximum, in milliseconds.
    pub max_ms: f64,
    /// Cumulative distribution.
    pub distribution: Vec<Point>,
}

/// A point of a cumulative distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Latency, in milliseconds.
    pub ms: f64,
    /// Fraction of the latencies that are at most this long.
    pub fraction: f64,
}

/// The quantiles of the distribution, with finer steps towards the tail.
const QUANTILES: [f64; 24] = [
    0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.98,
    0.985, 0.99, 0.995, 0.999, 0.9999, 1.0,
];

impl Latency {
    /// Returns the distribution of these latencies.
    #[must_use]
    pub fn of(latencies: impl IntoIterator<Item = Duration>) -> Self {
        let mut histogram =
            Histogram::<u64>::new_with_bounds(1, MAX, 3).expect("the constant bounds are valid");
        for latency in latencies {
            histogram.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(MAX).max(1));
        }
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            count: histogram.len(),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: histogram.max() as f64 / 1e3,
            distribution: QUANTILES.map(|fraction| Point { ms: at(fraction), fraction }).to_vec(),
        }
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

    #[test]
    fn quantiles_match_the_latencies() {
        let latency = Latency::of((1..=1_000).map(Duration::from_millis));
        assert_eq!(latency.count, 1_000);
        for (value, expected) in [(latency.p50_ms, 500.0), (latency.p99_ms, 990.0), (latency.max_ms, 1_000.0)]
        {
            assert!((value - expected).abs() <= expected / 500.0, "{value} for {expected}");
        }
        assert!(latency.distribution.is_sorted_by(|a, b| a.ms <= b.ms));
    }

    #[test]
    fn distribution_is_empty_without_latencies() {
        assert_eq!(Latency::of([]), Latency::default());
    }
}
