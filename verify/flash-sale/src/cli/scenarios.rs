//! `all` and `chaos`: run scenarios, with a report or repeatedly, and the options that both have.

use super::{
    Ended, Secret, asked_to_stop,
    serve::{parse_database, parse_locks},
    verdict,
};
use crate::{
    addresses::LocksUrl,
    report,
    report::Results,
    scenario::{AllPlan, DatabasePlan, Part, Site, SitePlan, Size, all},
};
use clap::{Args, value_parser};
use indicatif::{ProgressBar, ProgressDrawTarget};
use std::{
    env,
    error::Error,
    io::{IsTerminal, Write, stderr},
    path::PathBuf,
    pin::pin,
    process::ExitCode,
    time::Duration,
};

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

/// The stores for the scenarios. By default, a private redis-server and SQLite.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Keep the locks on this Redis server instead of a private one, and remove the run's keys at the end [env:
    /// SHOP_LOCKS]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub redis: Option<Secret>,

    /// Keep the stock on a private PostgreSQL server that is started for this run and removed afterwards
    #[arg(long, conflicts_with = "database")]
    pub postgres: bool,

    /// Keep the stock on this PostgreSQL server, in databases that are created for the run and dropped after it [env:
    /// SHOP_DATABASE]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub database: Option<Secret>,

    /// Seed for all random choices; the same seed repeats them
    #[arg(long, value_name = "SEED", default_value = "42")]
    pub seed: u64,
}

impl Place {
    /// Runs the parts. If a signal arrives, cleans up all servers and returns the signal's exit
    /// code.
    pub(super) async fn run(
        &self,
        plan: &AllPlan,
    ) -> Result<Result<Results, ExitCode>, Box<dyn Error + Send + Sync>> {
        let (plan_of_site, say) = (self.plan()?, Say::on_stderr());
        let mut stop = pin!(asked_to_stop());
        let site = tokio::select! {
            site = Site::open(plan_of_site) => site?,
            code = &mut stop => return Ok(Err(code)),
        };
        let line = |line: &str| say.line(line);
        let ended = tokio::select! {
            results = all(&site, plan, &line) => Ok(results),
            code = &mut stop => Err(code),
        };
        let closed = site.close().await;
        match ended {
            Ok(results) => {
                let results = results?;
                closed?;
                Ok(Ok(results))
            }
            Err(code) => {
                closed?;
                Ok(Err(code))
            }
        }
    }

    fn plan(&self) -> Result<SitePlan, Box<dyn Error + Send + Sync>> {
        let database = match self.postgres {
            true => DatabasePlan::PrivatePostgres,
            false => {
                parse_database(self.database.clone())?.map_or(DatabasePlan::Sqlite, DatabasePlan::Postgres)
            }
        };
        let redis = parse_locks(self.redis.clone())?.filter(|url| *url != LocksUrl::MEMORY);
        Ok(SitePlan { program: env::current_exe()?, redis, database })
    }
}

/// The progress of a long command on stderr, as lines with a spinner below them on a terminal.
#[derive(Debug)]
struct Say {
    spinner: Option<ProgressBar>,
}

impl Say {
    fn on_stderr() -> Self {
        let spinner = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { spinner }
    }

    fn line(&self, line: &str) {
        match &self.spinner {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Say {
    fn drop(&mut self) {
        if let Some(bar) = &self.spinner {
            bar.finish_and_clear();
        }
    }
}
