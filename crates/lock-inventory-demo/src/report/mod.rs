//! `report.html` and `results.json`: one page that needs nothing else, and the figures that it is made of.

mod charts;
mod comparison;
mod html;
mod machine;
mod page;
mod results;
mod scenarios;

pub use machine::{kernel, processor};
pub use page::page;
pub use results::{
    Comparison, Fault, Figure, Footer, Hold, Results, ScenarioResult, ServerShare, Spread, StaleWrite,
    StallResult, StockPoint,
};

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The names of the files.
pub const RESULTS: &str = "results.json";
/// The page.
pub const PAGE: &str = "report.html";

/// Writes both files to `directory`.
///
/// # Errors
/// [`ReportError`] when a chart cannot be drawn or a file not written.
pub fn write(results: &Results, directory: &Path) -> Result<(), ReportError> {
    let results_path = directory.join(RESULTS);
    let json =
        serde_json::to_vec_pretty(results).map_err(|error| ReportError::of(&results_path)(error.into()))?;
    fs::create_dir_all(directory).map_err(ReportError::of(directory))?;
    fs::write(&results_path, json).map_err(ReportError::of(&results_path))?;
    write_page(results, directory)
}

/// Writes the page alone to `directory`.
///
/// # Errors
/// [`ReportError`] when a chart cannot be drawn or the file not written.
pub fn write_page(results: &Results, directory: &Path) -> Result<(), ReportError> {
    let path = directory.join(PAGE);
    fs::write(&path, page(results)?).map_err(ReportError::of(&path))
}

/// Reads the results of an earlier run.
///
/// # Errors
/// [`ReportError`] when they cannot be read.
pub fn read(path: &Path) -> Result<Results, ReportError> {
    let json = fs::read(path).map_err(ReportError::of(path))?;
    serde_json::from_slice(&json).map_err(|source| ReportError::NoResults { path: path.into(), source })
}

/// There is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file could not be read or written.
    #[error("could not read or write {}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file has something else in it.
    #[error("{} has no results: give the results.json that `all` wrote", path.display())]
    NoResults {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// A chart.
    #[error("could not draw a chart: {0}")]
    Chart(String),
}

impl ReportError {
    fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::File { path: path.into(), source }
    }
}
