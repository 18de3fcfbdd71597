//! `chaos`: repeatedly runs scenarios with injected faults.

use super::{Ended, Place, verdict};
use crate::scenario::{AllPlan, Part, Size};
use clap::{Args, value_parser};
use std::io::Write;

/// Options for the `chaos` command.
#[derive(Debug, Clone, Args)]
pub struct Chaos {
    /// Scenarios to run
    #[arg(value_name = "SCENARIO", default_values = ["S4", "S4c", "S5", "S6", "S7", "S8"])]
    pub scenarios: Vec<Part>,

    /// Number of runs of each scenario
    #[arg(long, value_name = "N", default_value = "10", value_parser = value_parser!(u32).range(1..=1_000))]
    pub runs: u32,

    /// Options for the servers.
    #[command(flatten)]
    pub place: Place,
}

impl Chaos {
    /// Runs the scenarios and prints the expectations that do not hold.
    ///
    /// # Errors
    /// Returns the failure that ended the run.
    ///
    /// # Cancel safety
    /// Dropping this ends all processes and removes all files. Keys and databases remain on servers that the run did
    /// not start.
    pub async fn run(self, out: &mut (impl Write + Send)) -> Ended {
        let plan =
            AllPlan { parts: self.scenarios, runs: self.runs, size: Size::Quick, seed: self.place.seed };
        let results = match self.place.run(&plan).await? {
            Ok(results) => results,
            Err(code) => return Ok(code),
        };
        for failure in results.failures() {
            writeln!(out, "FAILED {failure}")?;
        }
        let (failed, all) =
            (results.scenarios.iter().filter(|one| !one.has_passed()).count(), results.scenarios.len());
        writeln!(out, "{all} scenarios were run and audited; {failed} did not end as expected.")?;
        Ok(verdict(results.have_passed()))
    }
}
