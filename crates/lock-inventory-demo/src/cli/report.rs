//! `report`: the page of an earlier run.

use super::Ended;
use crate::report;
use clap::Args;
use std::{io::Write, path::PathBuf, process::ExitCode};

/// Results of an earlier run.
#[derive(Debug, Clone, Args)]
pub struct Report {
    /// The results of `all`
    #[arg(value_name = "FILE", default_value = "results.json")]
    pub results: PathBuf,

    /// Where report.html goes
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
}

impl Report {
    /// Makes the page.
    ///
    /// # Errors
    /// Results that cannot be read, or a page that cannot be written.
    pub fn run(self, out: &mut impl Write) -> Ended {
        report::write_page(&report::read(&self.results)?, &self.out)?;
        writeln!(out, "The report is in {}.", self.out.join(report::PAGE).display())?;
        Ok(ExitCode::SUCCESS)
    }
}
