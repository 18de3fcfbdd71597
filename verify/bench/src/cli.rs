//! The command line.

use crate::{
    Result, child,
    measure::Machine,
    order::Order,
    report::{CaseReport, Page, Report, Style, WorkloadReport},
    workloads::{Effort, Workload},
};
use clap::{Parser, Subcommand};
use std::{path::PathBuf, time::Instant};

/// Measures what a lock costs, beside the least that a lock on Redis can cost and beside another library.
///
/// It starts its own servers and processes and needs `redis-server` in the path, Linux, and a machine that does nothing
/// else. Build it with `--release`. Progress goes to stderr, the report to stdout.
#[derive(Debug, Parser)]
#[command(name = "lock-bench", version)]
pub(crate) struct Cli {
    /// Take under three minutes for `all`, which leaves out `growth`
    #[arg(long, global = true, conflicts_with = "smoke")]
    quick: bool,

    /// Only show that each workload works, in seconds; the figures mean nothing
    #[arg(long, global = true)]
    smoke: bool,

    /// Print JSON instead of tables: times in seconds, memory in bytes
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
    /// All workloads
    All {
        /// Write the tables into this page of Markdown, between its markers, instead of printing them
        #[arg(long, value_name = "PAGE", conflicts_with_all = ["json", "markdown"])]
        update: Option<PathBuf>,
    },
    #[command(flatten)]
    One(Workload),
    /// A process of a measurement; not for use by hand
    #[command(hide = true)]
    Child { order: String },
}

impl Cli {
    pub(crate) fn run(self) -> Result<()> {
        match &self.command {
            Command::Child { order } => child::execute(&serde_json::from_str::<Order>(order)?),
            Command::All { update } => {
                // Before anything is measured: a page without markers cannot take the tables.
                let page = update.as_deref().map(Page::open).transpose()?;
                let report = self.measure(Workload::all(self.effort()))?;
                match page {
                    Some(page) => page.write(&report.text(Style::Markdown)),
                    None => self.print(&report),
                }
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
