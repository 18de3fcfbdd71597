//! The growth of the cost with the number of names or processes. `parallel` has the growth with the number of tasks.

use super::Effort;
use crate::{
    contestants::Contestant,
    load::{Load, Names},
    metric::Metric,
    runner::{Case, Measurement, Placement, Ratio},
};

/// Number of tasks per process in the series with a growing number of names or processes.
const TASKS: usize = 64;

pub(super) fn growth(effort: Effort) -> Vec<Case> {
    if effort == Effort::Smoke {
        return vec![by_processes(effort, 2)];
    }
    let names = [1, 100, 1_000, 10_000, 100_000].map(|names| by_names(effort, names));
    let processes = [1, 2, 4, 8].map(|processes| by_processes(effort, processes));
    [Vec::from(names), Vec::from(processes)].concat()
}

fn by_names(effort: Effort, names: usize) -> Case {
    let load = Load { names: Names::Own(names), ..Load::uncontended(TASKS, effort.growth_window()) };
    case(effort, "Names that 64 tasks of one process take in turn", count(names, "name"), 1, load)
}

/// Compares numbers of processes. With more processes, the load approaches the limit of the server.
fn by_processes(effort: Effort, processes: usize) -> Case {
    let load = Load::uncontended(TASKS, effort.growth_window());
    let label = count(processes, "process");
    let mut case = case(effort, "Processes of 64 tasks, a lock each", label, processes, load);
    case.columns.extend([Metric::ServerLoad, Metric::ServerLimit]);
    case
}

fn count(count: usize, what: &str) -> String {
    match (count, what.ends_with('s')) {
        (1, _) => format!("1 {what}"),
        (_, true) => format!("{count} {what}es"),
        (_, false) => format!("{count} {what}s"),
    }
}

fn case(effort: Effort, series: &'static str, label: String, processes: usize, load: Load) -> Case {
    Case {
        series: Some(series),
        label,
        measurement: Measurement::Cycles {
            load,
            processes,
            placement: Placement::Apart,
            warm_up: effort.warm_up(),
            count: None,
        },
        contestants: vec![Contestant::Fred, Contestant::RedisRs, Contestant::Hash],
        rounds: effort.growth_rounds(),
        columns: vec![Metric::Rate, Metric::CycleP50, Metric::WaitP99, Metric::ClientCpu, Metric::ServerCpu],
        ratios: vec![Ratio { metric: Metric::Rate, to: Contestant::Hash }],
    }
}
