//! `report.html`, a self-contained page, and `results.json`, the results it is generated from.

mod charts;
mod page;

pub use page::page;

use crate::load::{Latency, Summary};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Name of the file with the results.
pub const RESULTS: &str = "results.json";
/// Name of the file with the page.
pub const PAGE: &str = "report.html";

/// The results of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Machine and versions.
    pub footer: Footer,
    /// Scenarios, in the order in which they ran.
    pub scenarios: Vec<ScenarioResult>,
    /// Stall under an open model.
    pub stall: Option<StallResult>,
    /// Strategies under the same load.
    pub comparison: Vec<Comparison>,
}

impl Results {
    /// Returns every failed expectation, with the name of its part.
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

    /// Returns `true` if every expectation of every part holds.
    #[must_use]
    pub fn have_passed(&self) -> bool {
        self.failures().next().is_none()
    }
}

/// The conditions under which the figures were measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footer {
    /// Version of this program.
    pub program: String,
    /// `true` if the program was compiled with optimisation.
    pub optimised: bool,
    /// Model and number of processors.
    pub processor: String,
    /// Kernel and its version.
    pub kernel: String,
    /// Version of Redis.
    pub redis: String,
    /// Database and its version.
    pub database: String,
    /// Seed of the run.
    pub seed: u64,
    /// Start of the run, in UTC.
    pub began: String,
    /// Duration of the run, in seconds.
    pub seconds: u64,
}

/// The result of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// Id of the scenario: `S0` to `S10`, with a letter for a variant.
    pub id: String,
    /// Short description of the scenario.
    pub title: String,
    /// Name of the strategy on the command line.
    pub strategy: String,
    /// Expected verdict.
    pub expected: String,
    /// Failed expectations. The scenario passed if there are none.
    pub failures: Vec<String>,
    /// The result in one line.
    pub result: String,
    /// Units that were ever for sale.
    pub initial: i64,
    /// Units sold, according to the rows of orders.
    pub sold: i64,
    /// Units sold beyond those that were ever for sale.
    pub oversold: i64,
    /// Other findings of the audit.
    pub breaches: Vec<String>,
    /// Shops, and their shares of the requests.
    pub servers: Vec<ServerShare>,
    /// Outcomes and latencies, from the clients' point of view.
    pub load: Summary,
    /// Writes refused as stale.
    pub stale: Vec<StaleWrite>,
    /// Stock over time.
    pub stock: Vec<StockPoint>,
    /// Faults during the scenario.
    pub faults: Vec<Fault>,
    /// Holds of the lock, derived from the responses and the faults.
    pub holds: Vec<Hold>,
    /// Further figures.
    pub figures: Vec<Figure>,
    /// Duration of the scenario, in seconds.
    pub seconds: f64,
}

impl ScenarioResult {
    /// Returns `true` if every expectation holds.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// A shop and its share of the requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerShare {
    /// Shop name.
    pub name: String,
    /// Process id at the start.
    pub pid: u32,
    /// Number of requests that the balancer delivered to the shop.
    pub requests: u64,
    /// Share of all requests, from 0 to 1.
    pub share: f64,
}

/// A write that the store refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaleWrite {
    /// Key of the order, which was not acknowledged.
    pub key: String,
    /// Name and process id of the shop that wrote.
    pub server: String,
    /// Token of the write.
    pub token: i64,
    /// Newer token that the store had seen.
    pub newer: i64,
}

/// The stock at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockPoint {
    /// Time, in milliseconds after the start.
    pub ms: u64,
    /// Stock, according to the database's counter.
    pub stock: i64,
    /// Units sold, according to the rows of orders.
    pub sold: i64,
}

/// A fault and its duration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Start of the fault, in milliseconds after the start of the scenario.
    pub from_ms: u64,
    /// End of the fault, in milliseconds after the start of the scenario.
    pub to_ms: u64,
    /// Description of the fault and its target.
    pub what: String,
}

/// A hold of the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Shop name.
    pub server: String,
    /// Fencing token.
    pub token: i64,
    /// Start of the hold, in milliseconds after the start of the scenario.
    pub from_ms: u64,
    /// End of the hold, in milliseconds after the start of the scenario.
    pub to_ms: u64,
    /// `true` if the hold's write was refused as stale.
    pub is_stale: bool,
}

/// A figure of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the figure.
    pub name: String,
    /// Value with its unit.
    pub value: String,
}

/// The result of a database stall under an open model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallResult {
    /// Capacity measured beforehand, in orders per second.
    pub capacity: f64,
    /// Result of the load.
    pub load: Summary,
    /// Duration of the stall, in milliseconds.
    pub stall_ms: u64,
    /// Failed expectations.
    pub failures: Vec<String>,
}

/// The result of one strategy; all strategies are measured under the same load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the strategy on the command line.
    pub strategy: String,
    /// Description of the strategy.
    pub title: String,
    /// Load: `one hot SKU` or `100 SKUs`.
    pub load: String,
    /// Acknowledged orders per second.
    pub throughput: Spread,
    /// 99th percentile of the latency, in milliseconds.
    pub p99_ms: Spread,
    /// Latencies in the run with the median throughput.
    pub latency: Latency,
    /// Findings of the audit after all rounds.
    pub failures: Vec<String>,
}

/// The median and the range of several runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Number of runs.
    pub runs: usize,
}

impl Spread {
    /// Returns the spread of these values, or zeros if there are none.
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

/// Writes both files to `directory`.
///
/// # Errors
/// Returns [`ReportError`] if a chart cannot be drawn or a file cannot be written.
pub fn write(results: &Results, directory: &Path) -> Result<(), ReportError> {
    let results_path = directory.join(RESULTS);
    let json =
        serde_json::to_vec_pretty(results).map_err(|error| ReportError::of(&results_path)(error.into()))?;
    fs::create_dir_all(directory).map_err(ReportError::of(directory))?;
    fs::write(&results_path, json).map_err(ReportError::of(&results_path))?;
    write_page(results, directory)
}

/// Writes only the page to `directory`.
///
/// # Errors
/// Returns [`ReportError`] if a chart cannot be drawn or the file cannot be written.
pub fn write_page(results: &Results, directory: &Path) -> Result<(), ReportError> {
    let path = directory.join(PAGE);
    fs::write(&path, page(results)?).map_err(ReportError::of(&path))
}

/// Reads the results of an earlier run.
///
/// # Errors
/// Returns [`ReportError`] if the results cannot be read.
pub fn read(path: &Path) -> Result<Results, ReportError> {
    let json = fs::read(path).map_err(ReportError::of(path))?;
    serde_json::from_slice(&json).map_err(|source| ReportError::NoResults { path: path.into(), source })
}

/// An error while reading results or writing a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file could not be read or written.
    #[error("could not read or write {}", path.display())]
    File {
        /// Path of the file or directory.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
    /// The file does not contain results.
    #[error("{} contains no results: pass a results.json written by `all`", path.display())]
    NoResults {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        source: serde_json::Error,
    },
    /// A chart could not be drawn.
    #[error("could not draw a chart: {0}")]
    Chart(String),
}

impl ReportError {
    fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::File { path: path.into(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_contains_median_and_range() {
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
