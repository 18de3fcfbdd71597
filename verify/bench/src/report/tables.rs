//! Formats a report as text, for a terminal or as Markdown for `README.md`.

use super::{CaseReport, Report, Row, spread::Spread};
use comfy_table::{Cell, CellAlignment, Table, presets};
use std::fmt::Write;

/// The style of tables and headings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Terminal,
    Markdown,
}

impl Report {
    /// Formats the machine, the contestants and one table for each case.
    pub(crate) fn text(&self, style: Style) -> String {
        let mut text = self.preface(style);
        for workload in &self.workloads {
            let _ = writeln!(text, "\n### {}", workload.title);
            let same_series =
                |one: &CaseReport, next: &CaseReport| one.series.is_some() && one.series == next.series;
            for cases in workload.cases.chunk_by(same_series) {
                let title = cases[0].series.unwrap_or(&cases[0].label);
                let rounds = match cases[0].rounds {
                    1 => "1 round".to_owned(),
                    rounds => format!("medians of {rounds} rounds"),
                };
                let _ = writeln!(text, "\n**{title}** ({rounds})\n\n{}", table_of(cases, style));
            }
        }
        text
    }

    fn preface(&self, style: Style) -> String {
        let machine = &self.machine;
        let mut text = String::new();
        if !machine.optimized {
            text += "THIS IS A BUILD WITHOUT OPTIMISATION: its figures mean nothing.\n\n";
        }
        let rslock = machine.rslock.map_or("no rslock".to_owned(), |version| format!("rslock {version}"));
        let _ = writeln!(
            text,
            "{}: {}, {} cores, Linux {}, load average {} before the run. Redis {}, {}, fred {}, redis-rs {}, {rslock}.\n\n\
             Processes use tokio's default runtime: one worker thread for each processor that the process may use. Figures \
             are per cycle (acquire and release) unless their heading says otherwise. A ratio is the median of the ratios of rounds, with the least and the most. \
             Every run was checked: no two sections of one lock overlapped in any process, and tokens rose.\n",
            machine.date,
            machine.cpu,
            machine.cores,
            machine.kernel,
            machine.load_average,
            machine.redis,
            machine.rustc,
            machine.fred,
            machine.redis_rs,
        );
        let mut table = table(style);
        table.set_header(["contestant", "description"]);
        for (label, description) in &self.contestants {
            table.add_row([label, description]);
        }
        let _ = writeln!(text, "{table}\n\nDefault options: `{}`", self.options);
        if let Some(summary) = self.summary(style) {
            let _ = writeln!(text, "\n### Summary\n\n{summary}");
        }
        text
    }
}

/// Returns the table of one case, or of all cases of a series.
fn table_of(cases: &[CaseReport], style: Style) -> Table {
    let case = &cases[0];
    let label = case.series.map(|_| String::new());
    let mut headings: Vec<String> = label.into_iter().chain([String::new()]).collect();
    headings.extend(case.columns.iter().map(|metric| metric.heading().to_owned()));
    headings
        .extend(case.ratios.iter().map(|ratio| format!("{} × {}", ratio.metric.heading(), ratio.to.label())));
    let mut table = table(style);
    table.set_header(headings);
    for case in cases {
        for row in &case.rows {
            let label = case.series.map(|_| Cell::new(&case.label));
            table.add_row(label.into_iter().chain(case.cells(row)));
        }
    }
    table
}

impl CaseReport {
    fn cells(&self, row: &Row) -> Vec<Cell> {
        let figures = self.columns.iter().map(|metric| {
            row.figures.get(metric).map_or("–".to_owned(), |spread| metric.text(spread.median))
        });
        let ratios = row.ratios.iter().map(|ratio| match ratio.value {
            Some(_) if ratio.to == row.contestant => "1".to_owned(),
            Some(Spread { median, min, max }) => {
                format!("{} ({}–{})", multiple(median), multiple(min), multiple(max))
            }
            None => "–".to_owned(),
        });
        let right = |text| Cell::new(text).set_alignment(CellAlignment::Right);
        std::iter::once(Cell::new(row.contestant.label())).chain(figures.chain(ratios).map(right)).collect()
    }
}

/// Formats a ratio with three significant digits.
fn multiple(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 10.0 => format!("{ratio:.2}"),
        ratio if ratio < 100.0 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.0}"),
    }
}

pub(crate) fn table(style: Style) -> Table {
    let mut table = Table::new();
    table.load_style(match style {
        Style::Terminal => presets::UTF8_FULL_CONDENSED,
        Style::Markdown => presets::ASCII_MARKDOWN,
    });
    table
}
