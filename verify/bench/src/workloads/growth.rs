//! The growth of the cost, which one dimension at a time shows.

use super::Effort;
use crate::{
    contestants::Contestant,
    load::{Load, Names},
    metric::Metric,
    runner::{Case, Measurement, Placement, Ratio},
};

pub(super) fn growth(effort: Effort) -> Vec<Case> {
    const TASKS: usize = 64;
    match effort {
        Effort::Smoke => {
            return vec![case(effort, "2 processes".to_owned(), 2, Load::uncontended(2, effort.window()))];
        }
        Effort::Quick => return Vec::new(),
        Effort::Full => {}
    }
    let window = effort.window();
    let tasks = [1, 4, 16, 64, 256, 1_024].map(|tasks| {
        case(effort, format!("{tasks} tasks, a name each"), 1, Load::uncontended(tasks, window))
    });
    let names = [1, 100, 1_000, 10_000, 100_000].map(|names| {
        let load = Load { names: Names::Own(names), ..Load::uncontended(TASKS, window) };
        case(effort, format!("{names} names, {TASKS} tasks"), 1, load)
    });
    let processes = [1, 2, 4, 8].map(|processes| {
        let label = format!("{processes} processes of {TASKS} tasks, a name each");
        case(effort, label, processes, Load::uncontended(TASKS, window))
    });
    [Vec::from(tasks), Vec::from(names), Vec::from(processes)].concat()
}

fn case(effort: Effort, label: String, processes: usize, load: Load) -> Case {
    Case {
        label,
        measurement: Measurement::Cycles {
            load,
            processes,
            placement: Placement::Free,
            warm_up: effort.warm_up(),
            count: None,
        },
        contestants: vec![Contestant::Fred, Contestant::RedisRs, Contestant::Hash],
        rounds: effort.rounds().min(3),
        columns: vec![Metric::Rate, Metric::CycleP50, Metric::WaitP99, Metric::ClientCpu, Metric::ServerCpu],
        ratios: vec![Ratio { metric: Metric::Rate, to: Contestant::Hash }],
    }
}
