//! Tasks that do not meet.

use super::Effort;
use crate::{
    contestants::Contestant,
    load::Load,
    metric::Metric,
    runner::{Case, Measurement, Placement, Ratio},
};
use std::time::Duration;

const CONTESTANTS: [Contestant; 5] =
    [Contestant::Fred, Contestant::RedisRs, Contestant::Hash, Contestant::SetNx, Contestant::Rslock];

pub(super) fn one_task(effort: Effort) -> Vec<Case> {
    vec![case(effort, 1, Metric::CycleP50)]
}

pub(super) fn many_tasks(effort: Effort) -> Vec<Case> {
    let tasks: &[usize] = if effort == Effort::Smoke { &[64] } else { &[64, 256] };
    tasks.iter().map(|tasks| case(effort, *tasks, Metric::Rate)).collect()
}

pub(super) fn quorum(effort: Effort) -> Vec<Case> {
    let ratio = |to| Ratio { metric: Metric::CycleP50, to };
    let contestants = vec![
        Contestant::Quorum,
        Contestant::QuorumOneStopped,
        Contestant::QuorumFloor,
        Contestant::RslockQuorum,
        Contestant::RslockQuorumOneStopped,
    ];
    vec![Case {
        measurement: cycles(effort, 1, effort.long_window()),
        contestants,
        ratios: vec![ratio(Contestant::QuorumFloor), ratio(Contestant::Quorum)],
        ..case(effort, 1, Metric::CycleP50)
    }]
}

fn cycles(effort: Effort, tasks: usize, window: Duration) -> Measurement {
    Measurement::Cycles {
        load: Load::uncontended(tasks, window),
        processes: 1,
        placement: Placement::Pinned,
        warm_up: effort.warm_up(),
        count: Some(effort.counted_cycles()),
    }
}

fn case(effort: Effort, tasks: usize, compared: Metric) -> Case {
    Case {
        series: None,
        label: format!("{tasks} task{}", if tasks == 1 { "" } else { "s" }),
        measurement: cycles(effort, tasks, effort.window()),
        contestants: CONTESTANTS.to_vec(),
        rounds: effort.rounds(),
        columns: vec![
            Metric::Rate,
            Metric::CycleP50,
            Metric::ClientCpu,
            Metric::ServerCpu,
            Metric::VoluntarySwitches,
            Metric::InvoluntarySwitches,
            Metric::Allocations,
            Metric::AllocatedBytes,
        ],
        ratios: vec![
            Ratio { metric: compared, to: Contestant::Hash },
            Ratio { metric: compared, to: Contestant::Rslock },
            Ratio { metric: Metric::ServerCpu, to: Contestant::Hash },
        ],
    }
}
