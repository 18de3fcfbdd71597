//! The result of a run: one value that is printed as tables or as JSON.

mod page;
mod spread;
mod summary;
mod tables;

pub(crate) use self::{
    page::Page,
    spread::Spread,
    tables::{Style, table},
};

use crate::{
    contestants::Contestant,
    measure::Machine,
    metric::{Figures, Metric},
    runner::{Case, Ratio, Samples},
    workloads::Workload,
};
use lock_core::{Limits, LockOptions};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

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
