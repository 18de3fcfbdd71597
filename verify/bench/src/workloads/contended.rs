//! Tasks that compete for one lock.

use super::Effort;
use crate::{
    contestants::Contestant,
    load::{Load, Work},
    metric::Metric,
    runner::{Case, Measurement, Placement, Ratio},
};
use std::time::Duration;

const WAITS: [Metric; 4] = [Metric::WaitP50, Metric::WaitP99, Metric::WaitP999, Metric::WaitMax];

pub(super) fn one_process(effort: Effort) -> Vec<Case> {
    let tasks: &[usize] = if effort == Effort::Smoke { &[16] } else { &[16, 128] };
    let case = |tasks| Case {
        series: None,
        label: format!("{tasks} tasks, no work"),
        measurement: measurement(effort, 1, Load::contended(tasks, Work::Nothing, effort.window())),
        contestants: vec![
            Contestant::Fred,
            Contestant::FredOtel,
            Contestant::RedisRs,
            Contestant::Hash,
            Contestant::Queue,
            Contestant::HandOff,
            Contestant::Rslock,
        ],
        rounds: effort.rounds(),
        columns: [&[Metric::Rate], &WAITS[..], &[Metric::TaskBalance, Metric::ClientCpu, Metric::ServerCpu]]
            .concat(),
        ratios: ratios(),
    };
    tasks.iter().map(|tasks| case(*tasks)).collect()
}

pub(super) fn four_processes(effort: Effort) -> Vec<Case> {
    let tasks = if effort == Effort::Smoke { 4 } else { 32 };
    let case = |label: &str, work| Case {
        series: None,
        label: format!("{label}, {tasks} tasks each"),
        measurement: measurement(effort, 4, Load::contended(tasks, work, effort.long_window())),
        contestants: [
            effort.clients(),
            &[Contestant::Hash, Contestant::Queue, Contestant::HandOff, Contestant::Rslock],
        ]
        .concat(),
        rounds: effort.rounds(),
        columns: [
            &[Metric::Rate],
            &WAITS[..],
            &[Metric::ShareMin, Metric::ShareMax, Metric::TaskBalance, Metric::SectionShare],
        ]
        .concat(),
        ratios: ratios(),
    };
    vec![case("no work", Work::Nothing), case("1 ms of computing", Work::Spin(Duration::from_millis(1)))]
}

pub(super) fn hand_over(effort: Effort) -> Vec<Case> {
    // The pause is shorter than the time under the lock, so the other task is already waiting at each release.
    let load = Load {
        pause: Duration::from_millis(2),
        ..Load::contended(1, Work::Sleep(Duration::from_millis(5)), effort.window())
    };
    vec![Case {
        series: None,
        label: "2 processes, 1 task each, held for 5 ms".to_owned(),
        measurement: measurement(effort, 2, load),
        contestants: [effort.clients(), &[Contestant::Hash, Contestant::Rslock]].concat(),
        // Caches are cold at each step, so rounds differ more than those of other workloads.
        rounds: effort.rounds() * 3,
        columns: vec![Metric::HandoverP50, Metric::HandoverP99],
        ratios: vec![
            Ratio { metric: Metric::HandoverP50, to: Contestant::Hash },
            Ratio { metric: Metric::HandoverP99, to: Contestant::Hash },
        ],
    }]
}

fn measurement(effort: Effort, processes: usize, load: Load) -> Measurement {
    let (placement, warm_up) = (Placement::Free, effort.warm_up());
    Measurement::Cycles { load, processes, placement, warm_up, count: None }
}

fn ratios() -> Vec<Ratio> {
    let to = |to| Ratio { metric: Metric::Rate, to };
    vec![to(Contestant::Hash), to(Contestant::Rslock)]
}
