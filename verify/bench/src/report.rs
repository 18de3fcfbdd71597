//! The result of a run: one value that is printed as JSON, or as tables for a terminal, and as Markdown for `README.md`.

use crate::{
    Result,
    contestants::Contestant,
    machine::Machine,
    metric::{Figures, Metric},
    runner::{Case, Ratio, Samples},
    workloads::Workload,
};
use comfy_table::{Cell, CellAlignment, Table, presets};
use lock_core::{Limits, LockOptions};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// The contestants of the summary.
const SHOWN: [Contestant; 4] = [Contestant::Fred, Contestant::RedisRs, Contestant::Hash, Contestant::Rslock];
const BEGIN: &str = "<!-- lock-bench: begin -->\n";
const END: &str = "<!-- lock-bench: end -->\n";

/// The result of a run. Times are in seconds, memory is in bytes.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Options of our locks, which are the defaults.
    pub(crate) options: String,
    pub(crate) contestants: BTreeMap<&'static str, &'static str>,
    pub(crate) workloads: Vec<WorkloadReport>,
}

#[derive(Debug, Serialize)]
pub(crate) struct WorkloadReport {
    pub(crate) workload: Workload,
    pub(crate) title: &'static str,
    pub(crate) cases: Vec<CaseReport>,
}

#[derive(Debug, Serialize)]
pub(crate) struct CaseReport {
    /// Title of the series to which the case belongs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) series: Option<&'static str>,
    pub(crate) label: String,
    pub(crate) rounds: usize,
    #[serde(skip)]
    pub(crate) columns: Vec<Metric>,
    #[serde(skip)]
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) contestant: Contestant,
    pub(crate) figures: BTreeMap<Metric, Spread>,
    /// Ratios, in the order of the case's ratios.
    pub(crate) ratios: Vec<RatioReport>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RatioReport {
    pub(crate) metric: Metric,
    pub(crate) to: Contestant,
    /// `None` if the other contestant was not measured or the figure is 0.
    pub(crate) value: Option<Spread>,
}

impl Report {
    pub(crate) fn new(machine: Machine, workloads: Vec<WorkloadReport>) -> Self {
        let cases = workloads.iter().flat_map(|workload| &workload.cases);
        let contestants: BTreeSet<_> = cases.flat_map(|case| &case.rows).map(|row| row.contestant).collect();
        Self {
            machine,
            options: format!("{:?}, {:?}", LockOptions::new(), Limits::new()),
            contestants: contestants.into_iter().map(|one| (one.label(), one.description())).collect(),
            workloads,
        }
    }
}

impl CaseReport {
    pub(crate) fn new(case: &Case, samples: &[Samples]) -> Self {
        let row = |one: &Samples| Row {
            contestant: one.contestant,
            figures: figures(&one.rounds),
            ratios: case.ratios.iter().map(|ratio| RatioReport::new(*ratio, one, samples)).collect(),
        };
        Self {
            series: case.series,
            label: case.label.clone(),
            rounds: case.rounds,
            columns: case.columns.clone(),
            ratios: case.ratios.clone(),
            rows: samples.iter().map(row).collect(),
        }
    }
}

impl RatioReport {
    /// Compares the contestants round by round, because a disturbance of the machine affects both.
    fn new(ratio: Ratio, one: &Samples, samples: &[Samples]) -> Self {
        let Ratio { metric, to } = ratio;
        let other = samples.iter().find(|other| other.contestant == to);
        let rounds = other.map(|other| one.rounds.iter().zip(&other.rounds)).into_iter().flatten();
        let values = rounds.filter_map(|(one, other)| Some(one.get(&metric)? / other.get(&metric)?));
        Self { metric, to, value: Spread::of(values.filter(|value| value.is_finite())) }
    }
}

fn figures(rounds: &[Figures]) -> BTreeMap<Metric, Spread> {
    let metrics: BTreeSet<Metric> = rounds.iter().flat_map(BTreeMap::keys).copied().collect();
    let spread = |metric| {
        let values = rounds.iter().filter_map(|figures| figures.get(&metric).copied());
        Some((metric, Spread::of(values)?))
    };
    metrics.into_iter().filter_map(spread).collect()
}

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

impl Report {
    /// Returns the table; `None` if fewer than two cases compare these contestants.
    fn summary(&self, style: Style) -> Option<Table> {
        let cases = || self.workloads.iter().flat_map(|workload| &workload.cases);
        let mut table = table(style);
        let headings = SHOWN.iter().map(|contestant| contestant.label());
        table.set_header(["workload", "figure"].into_iter().chain(headings));
        table.add_rows(cases().filter_map(CaseReport::summary));
        (table.row_count() > 1).then_some(table)
    }
}

impl CaseReport {
    fn summary(&self) -> Option<Vec<Cell>> {
        let metric = self.ratios.first()?.metric;
        let is_shown = self.series.is_none() && self.rows.iter().any(|row| row.contestant == SHOWN[0]);
        let figure = |shown| {
            let row = self.rows.iter().find(|row| row.contestant == shown)?;
            Some(metric.text(row.figures.get(&metric)?.median))
        };
        let cell = |shown| {
            let text = figure(shown).unwrap_or("–".to_owned());
            Cell::new(text).set_alignment(CellAlignment::Right)
        };
        let labels = [Cell::new(&self.label), Cell::new(metric.heading())];
        is_shown.then(|| labels.into_iter().chain(SHOWN.map(cell)).collect())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Computes the spread of values; `None` if there are no values.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { median, min, max })
    }
}

/// A page without the text between its markers.
#[derive(Debug)]
pub(crate) struct Page {
    path: PathBuf,
    before: String,
    after: String,
}

impl Page {
    /// Reads a page. Fails if it has no markers.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let (before, after) = around(&text).ok_or_else(|| {
            format!("{} has no part between the lines {BEGIN:?} and {END:?}", path.display())
        })?;
        Ok(Self { path: path.to_owned(), before: before.to_owned(), after: after.to_owned() })
    }

    /// Writes the page, with this text between its markers.
    pub(crate) fn write(&self, text: &str) -> Result<()> {
        let Self { path, before, after } = self;
        Ok(fs::write(path, format!("{before}{BEGIN}\n{}\n\n{END}{after}", text.trim()))?)
    }
}

fn around(page: &str) -> Option<(&str, &str)> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some((before, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_between_the_middle_two() {
        assert_eq!(Spread::of([].into_iter()), None);
        assert_eq!(Spread::of([3.0, 1.0, 2.0].into_iter()), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        let even = Spread::of([4.0, 1.0, 2.0, 3.0].into_iter());
        assert_eq!(even, Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    }

    #[test]
    fn only_text_between_the_markers_is_replaced() -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), format!("# Title\n\n{BEGIN}\nold\n\n{END}\nthe end\n"))?;
        for text in ["first", "second\n"] {
            Page::open(file.path())?.write(text)?;
            let expected = format!("# Title\n\n{BEGIN}\n{}\n\n{END}\nthe end\n", text.trim());
            assert_eq!(fs::read_to_string(file.path())?, expected);
        }
        Ok(())
    }

    #[test]
    fn page_of_this_repository_has_the_markers() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        Page::open(&page).expect("a place for the tables");
    }

    #[test]
    fn page_without_markers_is_refused() {
        assert_eq!(around("# Title\n"), None);
        assert_eq!(around(&format!("{END}{BEGIN}")), None, "in the wrong order");
    }
}
