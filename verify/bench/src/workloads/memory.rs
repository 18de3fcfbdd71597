//! The in-memory backend, and `LockLayer` over it.

use super::Effort;
use crate::{
    contestants::Contestant,
    load::{Load, Work},
    metric::Metric,
    runner::{Case, Measurement, Placement, Ratio},
};

pub(super) fn memory(effort: Effort) -> Vec<Case> {
    let case = |label: &str, load, count| Case {
        series: None,
        label: label.to_owned(),
        measurement: Measurement::Cycles {
            load,
            processes: 1,
            placement: Placement::Free,
            warm_up: effort.warm_up(),
            count,
        },
        contestants: vec![Contestant::Memory, Contestant::TokioMutex],
        rounds: effort.rounds(),
        columns: vec![
            Metric::Rate,
            Metric::CycleP50,
            Metric::WaitP99,
            Metric::TaskBalance,
            Metric::ClientCpu,
            Metric::Allocations,
            Metric::AllocatedBytes,
        ],
        ratios: vec![Ratio { metric: Metric::Rate, to: Contestant::TokioMutex }],
    };
    vec![
        case("uncontended, 1 task", Load::uncontended(1, effort.window()), Some(effort.counted_cycles())),
        case("contended, 16 tasks", Load::contended(16, Work::Nothing, effort.window()), None),
    ]
}

pub(super) fn tower(effort: Effort) -> Vec<Case> {
    vec![Case {
        series: None,
        label: "one request after the other, one thread".to_owned(),
        measurement: Measurement::Requests { window: effort.window() },
        contestants: vec![Contestant::Layer, Contestant::LayerFloor, Contestant::Memory, Contestant::Handler],
        rounds: effort.rounds(),
        columns: vec![Metric::RequestTime],
        ratios: vec![Ratio { metric: Metric::RequestTime, to: Contestant::Memory }],
    }]
}
