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

use std::{fs, io, path::Path};

/// The names of the files.
pub const RESULTS: &str = "results.json";
/// The page.
pub const PAGE: &str = "report.html";

/// Writes both files to `directory`.
///
/// # Errors
/// [`ReportError`] when a chart cannot be drawn or a file not written.
pub fn write(results: &Results, directory: &Path) -> Result<(), ReportError> {
    let page = page(results)?;
    let json = serde_json::to_vec_pretty(results).map_err(io::Error::from)?;
    fs::create_dir_all(directory)?;
    fs::write(directory.join(RESULTS), json)?;
    Ok(fs::write(directory.join(PAGE), page)?)
}

/// Reads the results of an earlier run.
///
/// # Errors
/// [`ReportError`] when they cannot be read.
pub fn read(path: &Path) -> Result<Results, ReportError> {
    serde_json::from_slice(&fs::read(path)?).map_err(ReportError::NoResults)
}

/// There is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file.
    #[error("could not read or write the report")]
    File(#[from] io::Error),
    /// The file of results has something else in it.
    #[error("the results are not those of `all`")]
    NoResults(#[source] serde_json::Error),
    /// A chart.
    #[error("could not draw a chart: {0}")]
    Chart(String),
}
