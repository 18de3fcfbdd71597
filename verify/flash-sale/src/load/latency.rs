//! Latencies, from a histogram with three significant digits.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One hour, in microseconds. Longer latencies count as one hour.
const MAX: u64 = 3_600_000_000;

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
