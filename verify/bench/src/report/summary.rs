//! A table with the first figure of each case, for our locks on Redis, the hash floor and rslock.

use super::{
    CaseReport, Report,
    tables::{Style, table},
};
use crate::contestants::Contestant;
use comfy_table::{Cell, CellAlignment, Table};

const SHOWN: [Contestant; 4] = [Contestant::Fred, Contestant::RedisRs, Contestant::Hash, Contestant::Rslock];

impl Report {
    /// Returns the table; `None` if fewer than two cases compare these contestants.
    pub(super) fn summary(&self, style: Style) -> Option<Table> {
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
