//! `all`: runs every part and writes a report.

use super::{Ended, Place, verdict};
use crate::{
    report,
    scenario::{AllPlan, Part, Size},
};
use clap::{Args, value_parser};
use std::{io::Write, path::PathBuf};

/// Options for the `all` command.
#[derive(Debug, Clone, Args)]
pub struct All {
    /// Use small stocks and short rounds, for a run of less than three minutes
    #[arg(long)]
    pub quick: bool,

    /// Run only these parts, separated by commas: S0 to S10, stall, comparison
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub only: Vec<Part>,

    /// Number of runs of each scenario
    #[arg(long, value_name = "N", default_value = "1", value_parser = value_parser!(u32).range(1..=1_000))]
    pub runs: u32,

    /// Directory for report.html and results.json
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,

    /// Options for the servers.
    #[command(flatten)]
    pub place: Place,
}

impl All {
    /// Runs the parts and writes the report.
    ///
    /// # Errors
    /// Returns the failure that ended the run.
    ///
    /// # Cancel safety
    /// Dropping this ends all processes and removes all files. Keys and databases remain on servers that the run did
    /// not start.
    pub async fn run(self, out: &mut (impl Write + Send)) -> Ended {
        let parts = if self.only.is_empty() { Part::every().collect() } else { self.only };
        let size = if self.quick { Size::Quick } else { Size::Full };
        let plan = AllPlan { parts, runs: self.runs, size, seed: self.place.seed };
        let results = match self.place.run(&plan).await? {
            Ok(results) => results,
            Err(code) => return Ok(code),
        };
        report::write(&results, &self.out)?;
        for failure in results.failures() {
            writeln!(out, "FAILED {failure}")?;
        }
        let (page, seconds) = (self.out.join(report::PAGE), results.footer.seconds);
        let verdict_line =
            if results.have_passed() { "Every expectation holds" } else { "Some expectations do not hold" };
        writeln!(out, "{verdict_line} (run time {seconds} s). The report is in {}.", page.display())?;
        Ok(verdict(results.have_passed()))
    }
}
