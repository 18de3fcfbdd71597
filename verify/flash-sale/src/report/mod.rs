//! `report.html`, a self-contained page, and `results.json`, the results it is generated from.

mod charts;
mod comparison;
mod html;
mod page;
mod results;
mod scenarios;

pub use page::page;
pub use results::{
    Comparison, Fault, Figure, Footer, Hold, Results, ScenarioResult, ServerShare, Spread, StaleWrite,
    StallResult, StockPoint,
};

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Name of the file with the results.
pub const RESULTS: &str = "results.json";
/// Name of the file with the page.
pub const PAGE: &str = "report.html";

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
