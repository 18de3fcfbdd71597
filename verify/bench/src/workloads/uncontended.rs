//! Tasks that never wait for each other.

use super::Effort;
use crate::{
    contestants::Contestant,
    load::Load,
    metric::Metric,
    runner::{Case, Measurement, Placement, Ratio},
};
use std::time::Duration;

const CONTESTANTS: [Contestant; 7] = [
    Contestant::Fred,
    Contestant::RedisRs,
    Contestant::Fenced,
    Contestant::FencedRedisRs,
    Contestant::Hash,
    Contestant::SetNx,
    Contestant::Rslock,
];

pub(super) fn one_task(effort: Effort) -> Vec<Case> {
    vec![case(effort, 1, Metric::CycleP50)]
}

pub(super) fn many_tasks(effort: Effort) -> Vec<Case> {
    let tasks: &[usize] = match effort {
        Effort::Smoke => &[8],
        Effort::Quick => &[4, 64],
        Effort::Full => &[2, 4, 8, 16, 32, 64, 256, 1_024],
    };
    tasks.iter().map(|tasks| case(effort, *tasks, Metric::Rate)).collect()
}

pub(super) fn quorum(effort: Effort) -> Vec<Case> {
    let case = |label: &str, contestants: &[Contestant], count, to: &[Contestant]| Case {
        label: label.to_owned(),
        measurement: cycles(effort.long_window(), effort, 1, count),
        contestants: contestants.to_vec(),
        ratios: to.iter().map(|to| Ratio { metric: Metric::CycleP50, to: *to }).collect(),
        ..case(effort, 1, Metric::CycleP50)
    };
    let alive =
        [Contestant::Quorum, Contestant::QuorumOneStopped, Contestant::QuorumFloor, Contestant::RslockQuorum];
    // Allocations are not counted, because one cycle of rslock takes seconds.
    let one_stopped = [Contestant::QuorumOneStopped, Contestant::RslockQuorumOneStopped];
    vec![
        case("1 task", &alive, Some(effort.counted_cycles()), &[Contestant::QuorumFloor, Contestant::Quorum]),
        case("1 task, one server stopped", &one_stopped, None, &[Contestant::QuorumOneStopped]),
    ]
}

fn cycles(window: Duration, effort: Effort, tasks: usize, count: Option<usize>) -> Measurement {
    Measurement::Cycles {
        load: Load::uncontended(tasks, window),
        processes: 1,
        placement: Placement::Pinned,
        warm_up: effort.warm_up(),
        count,
    }
}

fn case(effort: Effort, tasks: usize, compared: Metric) -> Case {
    Case {
        series: None,
        label: format!("{tasks} task{}", if tasks == 1 { "" } else { "s" }),
        measurement: cycles(effort.window(), effort, tasks, Some(effort.counted_cycles())),
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
            Ratio { metric: compared, to: Contestant::Fenced },
            Ratio { metric: compared, to: Contestant::FencedRedisRs },
            Ratio { metric: compared, to: Contestant::Rslock },
            Ratio { metric: Metric::ServerCpu, to: Contestant::Hash },
        ],
    }
}
