//! `report`: generates the page for an earlier run.

use super::Ended;
use crate::report;
use clap::Args;
use std::{io::Write, path::PathBuf, process::ExitCode};

/// Options for the `report` command.
#[derive(Debug, Clone, Args)]
pub struct Report {
    /// Results file written by `all`
    #[arg(value_name = "FILE", default_value = "results.json")]
    pub results: PathBuf,

    /// Directory for report.html
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
}

impl Report {
    /// Generates the page.
    ///
    /// # Errors
    /// Returns an error if the results cannot be read or the page cannot be written.
    pub fn run(self, out: &mut impl Write) -> Ended {
        report::write_page(&report::read(&self.results)?, &self.out)?;
        writeln!(out, "The report is in {}.", self.out.join(report::PAGE).display())?;
        Ok(ExitCode::SUCCESS)
    }
}
