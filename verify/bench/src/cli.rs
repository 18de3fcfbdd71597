//! The command line.

use crate::{
    Result, child,
    measure::Machine,
    order::Order,
    report::{CaseReport, Report, Style, WorkloadReport},
    workloads::{Effort, Workload},
};
use clap::{Parser, Subcommand};
use std::time::Instant;

/// Measures what a lock costs, beside the least that a lock on Redis can cost and beside another library.
///
/// It starts its own servers and processes and needs `redis-server` in the path, Linux, and a machine that does nothing
/// else. Build it with `--release`. Progress goes to stderr, the report to stdout.
#[derive(Debug, Parser)]
#[command(name = "lock-bench", version)]
pub(crate) struct Cli {
    /// Take under three minutes for all workloads; leaves out `growth`
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
    All,
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
            Command::All => self.measure(&Workload::ALL),
            Command::One(workload) => self.measure(&[*workload]),
        }
    }

    fn measure(&self, workloads: &[Workload]) -> Result<()> {
        let machine = Machine::look()?;
        let begun = Instant::now();
        let mut reports = Vec::new();
        for workload in workloads {
            let mut cases = Vec::new();
            for case in workload.cases(self.effort()) {
                eprintln!("{:>5.0} s  {}: {}", begun.elapsed().as_secs_f64(), workload.title(), case.label);
                cases.push(CaseReport::new(&case, &case.run()?));
            }
            if !cases.is_empty() {
                reports.push(WorkloadReport { workload: *workload, title: workload.title(), cases });
            }
        }
        eprintln!("{:>5.0} s  done", begun.elapsed().as_secs_f64());
        let report = Report::new(machine, reports);
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
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
