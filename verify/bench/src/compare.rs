//! Two builds of this program, measured by turns on the same machine: what a change costs.

use crate::{
    Result,
    report::{Spread, Style, table},
};
use comfy_table::{Cell, CellAlignment};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    env,
    path::Path,
    process::{Command, Stdio},
};

/// The compared figures: the key in the JSON report, and the heading.
const FIGURES: [(&str, &str); 3] =
    [("rate", "cycles/s"), ("cycle_p50", "cycle p50"), ("client_cpu", "client CPU")];

/// A row of the report of one build, and its figures of each turn, of the other build and of this one.
type Rows = BTreeMap<(String, String, String), [BTreeMap<&'static str, Vec<f64>>; 2]>;

/// Runs `arguments` with the program `other` and with this one, by turns, and returns a table of this build's medians
/// divided by those of `other`.
pub(crate) fn compare(other: &Path, turns: usize, arguments: &[&str]) -> Result<String> {
    let programs = [other.to_owned(), env::current_exe()?];
    let mut rows = Rows::new();
    for turn in 1..=turns {
        for (build, program) in programs.iter().enumerate() {
            eprintln!("turn {turn} of {turns}: {}", program.display());
            let output =
                Command::new(program).args(arguments).arg("--json").stderr(Stdio::inherit()).output()?;
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
