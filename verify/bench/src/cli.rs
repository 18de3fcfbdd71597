//! The command line.

use crate::{
    Result, child,
    compare::compare,
    measure::Machine,
    order::Order,
    report::{CaseReport, Page, Report, Style, WorkloadReport},
    workloads::{Effort, Workload},
};
use clap::{Parser, Subcommand};
use std::{path::PathBuf, time::Instant};

/// Measures the cost of locks, compared with minimal locks on Redis and with another library.
///
/// Requires Linux, `redis-server` in the path, and a machine without other work. Starts its own servers and processes.
/// Build it with `--release`. Progress goes to stderr, the report to stdout.
#[derive(Debug, Parser)]
#[command(name = "lock-bench", version)]
pub(crate) struct Cli {
    /// Shorten the run: `all` takes less than three minutes and skips `growth`
    #[arg(long, global = true, conflicts_with = "smoke")]
    quick: bool,

    /// Only check that each workload works; takes seconds, and the figures are meaningless
    #[arg(long, global = true)]
    smoke: bool,

    /// Print JSON instead of tables, with times in seconds and memory in bytes
    #[arg(long, global = true, conflicts_with = "markdown")]
    json: bool,

    /// Print Markdown instead of tables
    #[arg(long, global = true)]
    markdown: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run all workloads
    All {
        /// Write the tables between the markers of this Markdown page instead of printing them
        #[arg(long, value_name = "PAGE", conflicts_with_all = ["json", "markdown"])]
        update: Option<PathBuf>,
    },
    #[command(flatten)]
    One(Workload),
    /// Run a workload with another build of this program and with this one, by turns, and print the ratios of the medians
    Compare {
        /// The other build
        other: PathBuf,
        /// The workload, by its command
        workload: String,
        /// Number of runs of each build
        #[arg(long, default_value_t = 3)]
        turns: usize,
    },
    /// Run one process of a measurement (internal)
    #[command(hide = true)]
    Child { order: String },
}

impl Cli {
    pub(crate) fn run(self) -> Result<()> {
        match &self.command {
            Command::Child { order } => child::execute(&serde_json::from_str::<Order>(order)?),
            Command::All { update } => {
                // Fail before the measurements if the page has no markers.
                let page = update.as_deref().map(Page::open).transpose()?;
                let report = self.measure(Workload::all(self.effort()))?;
                match page {
                    Some(page) => page.write(&report.text(Style::Markdown)),
                    None => self.print(&report),
                }
            }
            Command::Compare { other, workload, turns } => {
                let effort = match self.effort() {
                    Effort::Smoke => &["--smoke"][..],
                    Effort::Quick => &["--quick"],
                    Effort::Full => &[],
                };
                let arguments = [&[workload.as_str()], effort].concat();
                println!("{}", compare(other, *turns, &arguments)?);
                Ok(())
            }
            Command::One(workload) => self.print(&self.measure(&[*workload])?),
        }
    }

    fn measure(&self, workloads: &[Workload]) -> Result<Report> {
        let machine = Machine::look()?;
        let begun = Instant::now();
        let mut reports = Vec::new();
        for workload in workloads {
            let mut cases = Vec::new();
            for case in workload.cases(self.effort()) {
                eprintln!("{:>5.0} s  {}: {}", begun.elapsed().as_secs_f64(), workload.title(), case.label);
                cases.push(CaseReport::new(&case, &case.run()?));
            }
            reports.push(WorkloadReport { workload: *workload, title: workload.title(), cases });
        }
        eprintln!("{:>5.0} s  done", begun.elapsed().as_secs_f64());
        Ok(Report::new(machine, reports))
    }

    fn print(&self, report: &Report) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(report)?);
        } else {
            println!("{}", report.text(if self.markdown { Style::Markdown } else { Style::Terminal }));
        }
        Ok(())
    }

    fn effort(&self) -> Effort {
        match (self.smoke, self.quick) {
            (true, _) => Effort::Smoke,
            (false, true) => Effort::Quick,
            (false, false) => Effort::Full,
        }
    }
}
