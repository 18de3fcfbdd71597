//! The results of a run, as `results.json` has them. The page is made of nothing else.

use crate::load::{Latency, Summary};
use serde::{Deserialize, Serialize};

/// All that a run has shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The machine and the versions.
    pub footer: Footer,
    /// The scenarios, in the order in which they ran.
    pub scenarios: Vec<ScenarioResult>,
    /// The stall under an open model.
    pub stall: Option<StallResult>,
    /// The strategies under the same load.
    pub comparison: Vec<Comparison>,
}

/// The circumstances of the figures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footer {
    /// The version of this program.
    pub program: String,
    /// Whether it was compiled with optimisation.
    pub optimised: bool,
    /// The model of the processor, and how many there are.
    pub processor: String,
    /// The kernel.
    pub kernel: String,
    /// The version of Redis.
    pub redis: String,
    /// The database and its version.
    pub database: String,
    /// The seed.
    pub seed: u64,
    /// When the run began, in UTC.
    pub began: String,
    /// How long it took, in seconds.
    pub seconds: u64,
}

/// One scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// `S0` to `S10`, with a letter for a variant.
    pub id: String,
    /// What happens, in a few words.
    pub title: String,
    /// The strategy's name on the command line.
    pub strategy: String,
    /// The verdict that was expected.
    pub expected: String,
    /// Every expectation that does not hold. None: the scenario passed.
    pub failures: Vec<String>,
    /// Pieces in stock before.
    pub initial: i64,
    /// Pieces sold, by the rows of orders.
    pub sold: i64,
    /// Pieces sold beyond the initial stock.
    pub oversold: i64,
    /// What else the audit found.
    pub breaches: Vec<String>,
    /// The shops, and their shares of the requests.
    pub servers: Vec<ServerShare>,
    /// The clients' side.
    pub load: Summary,
    /// The writes that were refused as stale.
    pub stale: Vec<StaleWrite>,
    /// The stock over time.
    pub stock: Vec<StockPoint>,
    /// The faults.
    pub faults: Vec<Fault>,
    /// Who held the lock, as the answers and the faults tell.
    pub holds: Vec<Hold>,
    /// Further figures.
    pub figures: Vec<Figure>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl ScenarioResult {
    /// Returns whether every expectation holds.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// One shop and its part of the requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerShare {
    /// Its name.
    pub name: String,
    /// Its process id at the begin.
    pub pid: u32,
    /// The requests that the balancer delivered to it.
    pub requests: u64,
    /// Their part of all requests, from 0 to 1.
    pub share: f64,
}

/// A write that the store refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaleWrite {
    /// The order, which was not acknowledged.
    pub key: String,
    /// The shop that wrote, and its process id.
    pub server: String,
    /// Its token.
    pub token: i64,
    /// The newer token that the store had seen.
    pub newer: i64,
}

/// The stock at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockPoint {
    /// Milliseconds after the begin.
    pub ms: u64,
    /// The counter of the database.
    pub stock: i64,
    /// The rows of orders, in pieces.
    pub sold: i64,
}

/// A fault from its begin to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Milliseconds after the begin.
    pub from_ms: u64,
    /// Milliseconds after the begin.
    pub to_ms: u64,
    /// What was done, to whom.
    pub what: String,
}

/// One hold of the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The shop.
    pub server: String,
    /// The fencing token.
    pub token: i64,
    /// Milliseconds after the begin.
    pub from_ms: u64,
    /// Milliseconds after the begin.
    pub to_ms: u64,
    /// Whether its write was refused as stale.
    pub is_stale: bool,
}

/// A figure of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// The figure with its unit.
    pub value: String,
}

/// The stall of the database under an open model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallResult {
    /// The capacity that was measured before, in orders per second.
    pub capacity: f64,
    /// The load.
    pub load: Summary,
    /// How long the database stalled, in milliseconds.
    pub stall_ms: u64,
    /// Every expectation that does not hold.
    pub failures: Vec<String>,
}

/// One strategy under the load that all have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The strategy's name on the command line.
    pub strategy: String,
    /// Its description.
    pub title: String,
    /// The load: `one hot SKU` or `100 SKUs`.
    pub load: String,
    /// Acknowledged orders per second.
    pub throughput: Spread,
    /// The 99th percentile of latency, in milliseconds.
    pub p99_ms: Spread,
    /// The latencies of the run with the median throughput.
    pub latency: Latency,
    /// What the audit found after all rounds.
    pub failures: Vec<String>,
}

/// The median of several runs, and the runs around it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
    /// How many runs there were.
    pub runs: usize,
}

impl Spread {
    /// The spread of these values. Without values it is all zeros.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return Self::default() };
        let runs = values.len();
        let median = match runs % 2 {
            0 => f64::midpoint(values[runs / 2 - 1], values[runs / 2]),
            _ => values[runs / 2],
        };
        Self { median, min, max, runs }
    }
}

impl Results {
    /// Every expectation that does not hold, with the part that it belongs to.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let scenarios =
            self.scenarios.iter().flat_map(|one| one.failures.iter().map(move |why| (one.id.as_str(), why)));
        let stall = self.stall.iter().flat_map(|one| one.failures.iter().map(|why| ("stall", why)));
        let compared = self
            .comparison
            .iter()
            .flat_map(|one| one.failures.iter().map(move |why| (one.strategy.as_str(), why)));
        scenarios.chain(stall).chain(compared).map(|(part, why)| format!("{part}: {why}"))
    }

    /// Returns whether every expectation of every part holds.
    #[must_use]
    pub fn have_passed(&self) -> bool {
        self.failures().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_has_the_median_and_both_ends() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0, runs: 3 });
        assert_eq!(Spread::of([4.0, 1.0]), Spread { median: 2.5, min: 1.0, max: 4.0, runs: 2 });
        assert_eq!(Spread::of([]), Spread::default());
    }

    #[test]
    fn one_failure_fails_the_results() {
        let mut results = Results { scenarios: vec![ScenarioResult::default()], ..Results::default() };
        assert!(results.have_passed());
        results.scenarios[0].failures.push("it did not oversell".into());
        assert!(!results.have_passed());
    }
}
