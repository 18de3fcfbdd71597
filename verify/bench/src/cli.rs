//! The command line, and the comparison of two builds of this program, measured by turns on the same machine.

use crate::{
    Result, jobs,
    machine::Machine,
    order::Order,
    report::{CaseReport, Page, Report, Spread, Style, WorkloadReport, table},
    workloads::{Effort, Workload},
};
use clap::{Parser, Subcommand};
use comfy_table::{Cell, CellAlignment};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::{self, Stdio},
    time::Instant,
};

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
            Command::Child { order } => jobs::execute(&serde_json::from_str::<Order>(order)?),
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

/// The compared figures: the key in the JSON report, and the heading.
const FIGURES: [(&str, &str); 3] =
    [("rate", "cycles/s"), ("cycle_p50", "cycle p50"), ("client_cpu", "client CPU")];

/// A row of the report of one build, and its figures of each turn, of the other build and of this one.
type Rows = BTreeMap<(String, String, String), [BTreeMap<&'static str, Vec<f64>>; 2]>;

/// Runs `arguments` with the program `other` and with this one, by turns, and returns a table of this build's medians
/// divided by those of `other`.
fn compare(other: &Path, turns: usize, arguments: &[&str]) -> Result<String> {
    let programs = [other.to_owned(), env::current_exe()?];
    let mut rows = Rows::new();
    for turn in 1..=turns {
        for (build, program) in programs.iter().enumerate() {
            eprintln!("turn {turn} of {turns}: {}", program.display());
            let output = process::Command::new(program)
                .args(arguments)
                .arg("--json")
                .stderr(Stdio::inherit())
                .output()?;
            if !output.status.success() {
                return Err(format!("{} failed: {}", program.display(), output.status).into());
            }
            collect(&serde_json::from_slice(&output.stdout)?, build, &mut rows);
        }
    }
    Ok(text(&rows))
}

fn collect(report: &Value, build: usize, rows: &mut Rows) {
    for workload in list(&report["workloads"]) {
        for case in list(&workload["cases"]) {
            for row in list(&case["rows"]) {
                let key = [&workload["workload"], &case["label"], &row["contestant"]];
                let [workload, case, contestant] = key.map(|text| text.as_str().unwrap_or("?").to_owned());
                let figures = &mut rows.entry((workload, case, contestant)).or_default()[build];
                for (figure, _) in FIGURES {
                    let median = row["figures"][figure]["median"].as_f64();
                    figures.entry(figure).or_default().extend(median);
                }
            }
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Rows that only one build has are left out.
fn text(rows: &Rows) -> String {
    let mut table = table(Style::Markdown);
    let headings = FIGURES.map(|(_, heading)| heading);
    table.set_header(["workload", "case", "contestant"].into_iter().chain(headings));
    for ((workload, case, contestant), [before, after]) in rows {
        let ratios = FIGURES.map(|(figure, _)| {
            let median = |of: &BTreeMap<_, Vec<f64>>| Spread::of(of.get(figure)?.iter().copied());
            Some(median(after)?.median / median(before)?.median)
        });
        if ratios.iter().any(Option::is_some) {
            let figures = ratios.map(|ratio| ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}")));
            let figures = figures.map(|figure| Cell::new(figure).set_alignment(CellAlignment::Right));
            table.add_row([workload, case, contestant].map(Cell::new).into_iter().chain(figures));
        }
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ratios_are_of_medians_and_rows_of_one_build_are_left_out() {
        let report = |contestant: &str, rate: f64| {
            let figures = json!({"rate": {"median": rate}});
            json!({"workloads": [{"workload": "parallel", "cases": [
                {"label": "4 tasks", "rows": [{"contestant": contestant, "figures": figures}]}
            ]}]})
        };
        let mut rows = Rows::new();
        for (before, after) in [(100.0, 90.0), (1.0, 50.0), (200.0, 1_000.0)] {
            collect(&report("fred", before), 0, &mut rows);
            collect(&report("fred", after), 1, &mut rows);
        }
        collect(&report("fenced", 5.0), 1, &mut rows);
        let text = text(&rows);
        assert!(text.lines().any(|line| line.contains("fred") && line.contains("0.90")), "{text}");
        assert!(!text.contains("fenced"), "{text}");
    }
}
