//! The workloads: their contestants and their load.

use crate::{
    contestants::Contestant,
    load::{Load, Names, Work},
    metric::Metric,
    runner::{Case, Measurement, Placement, Ratio},
};
use serde::Serialize;
use std::time::Duration;

/// The columns of waits.
const WAITS: [Metric; 4] = [Metric::WaitP50, Metric::WaitP99, Metric::WaitP999, Metric::WaitMax];
/// Time between two renewals, a third of the default lease.
const RENEWED_EVERY: Duration = Duration::from_secs(10);
/// Number of tasks per process in the series with a growing number of names or processes.
const TASKS: usize = 64;

/// A group of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Subcommand, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// Measure one task on a free lock: latency, processor time, context switches, allocations
    Uncontended,
    /// Measure 2 to 1,024 tasks, each with its own lock
    Parallel,
    /// Measure one task on a free lock of a quorum of five servers, with all servers up and with one stopped
    Quorum,
    /// Measure 16 and 128 tasks of one process on one lock
    Contended,
    /// Measure 4 processes with 32 tasks each on one lock, without work and with 1 ms of work under the lock
    Processes,
    /// Measure a lock that two processes acquire alternately
    Handover,
    /// Measure 1,000 tasks that wait for a held lock
    Waiters,
    /// Measure 10,000 held locks and their renewals
    Held,
    /// Measure the in-memory backend
    Memory,
    /// Measure a request through `LockLayer` with a free in-memory lock
    Tower,
    /// Measure fair locks and semaphores on Redis
    Permits,
    /// Measure locks in PostgreSQL and in an SQLite file
    Sql,
    /// Measure locks in etcd and in ZooKeeper
    Clusters,
    /// Measure the growth of the cost with names and processes, and the limit of one Redis; takes minutes
    Growth,
}

impl Workload {
    const ALL: [Self; 14] = [
        Self::Uncontended,
        Self::Parallel,
        Self::Quorum,
        Self::Contended,
        Self::Processes,
        Self::Handover,
        Self::Waiters,
        Self::Held,
        Self::Memory,
        Self::Tower,
        Self::Permits,
        Self::Sql,
        Self::Clusters,
        Self::Growth,
    ];

    /// Returns the workloads of `all`. A short run skips `growth`, the last one.
    pub(crate) fn all(effort: Effort) -> &'static [Self] {
        if effort == Effort::Quick { &Self::ALL[..13] } else { &Self::ALL }
    }

    /// Returns the heading of the tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Uncontended => "Uncontended, 1 task, server and client pinned to a processor each",
            Self::Parallel => {
                "Uncontended, many tasks with a lock each, server and client pinned to a processor each"
            }
            Self::Quorum => "Uncontended, 1 task, a quorum of five servers, which share a processor",
            Self::Contended => "One lock, one process",
            Self::Processes => "One lock, 4 processes of 32 tasks",
            Self::Handover => "Hand-over between two processes, from the release to the next hold",
            Self::Waiters => "Waiters on a held lock",
            Self::Held => "Held locks, renewed with the default lease",
            Self::Memory => "In memory",
            Self::Tower => "A request under a free in-memory lock",
            Self::Permits => "Permits on Redis",
            Self::Sql => "Databases",
            Self::Clusters => "Stores with sessions",
            Self::Growth => "Growth, server alone on a processor",
        }
    }

    /// Returns the cases.
    pub(crate) fn cases(self, effort: Effort) -> Vec<Case> {
        match self {
            Self::Uncontended => one_task(effort),
            Self::Parallel => many_tasks(effort),
            Self::Quorum => quorum(effort),
            Self::Contended => one_process(effort),
            Self::Processes => four_processes(effort),
            Self::Handover => hand_over(effort),
            Self::Waiters => waiters(effort),
            Self::Held => held(effort),
            Self::Memory => memory(effort),
            Self::Tower => tower(effort),
            Self::Permits => permits(effort),
            Self::Sql => stores(
                effort,
                &[
                    ("PostgreSQL", [Contestant::Postgres, Contestant::PostgresFloor]),
                    ("SQLite", [Contestant::Sqlite, Contestant::SqliteFloor]),
                ],
            ),
            Self::Clusters => stores(
                effort,
                &[
                    ("etcd", [Contestant::Etcd, Contestant::EtcdFloor]),
                    ("ZooKeeper", [Contestant::ZooKeeper, Contestant::ZooKeeperFloor]),
                ],
            ),
            Self::Growth => growth(effort),
        }
    }
}

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Seconds. Only shows that every workload works; its figures are meaningless.
    Smoke,
    /// Less than three minutes for all workloads.
    Quick,
    /// Long enough for stable figures.
    Full,
}

impl Effort {
    fn choose<T>(self, smoke: T, quick: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick => quick,
            Self::Full => full,
        }
    }

    pub(crate) fn rounds(self) -> usize {
        self.choose(1, 3, 5)
    }

    /// Returns the number of rounds for each step of a series.
    pub(crate) fn growth_rounds(self) -> usize {
        self.choose(1, 1, 3)
    }

    /// Returns the Redis clients to compare. Short runs skip the second one to save time.
    pub(crate) fn clients(self) -> &'static [Contestant] {
        const BOTH: [Contestant; 2] = [Contestant::Fred, Contestant::RedisRs];
        if self == Self::Full { &BOTH } else { &BOTH[..1] }
    }

    /// Returns the time during which cycles of one process are measured.
    pub(crate) fn window(self) -> Duration {
        Duration::from_millis(self.choose(40, 400, 2_000))
    }

    /// Returns the time during which cycles of several processes are measured.
    pub(crate) fn long_window(self) -> Duration {
        self.window() * 2
    }

    /// Returns the time during which cycles of each step of a series are measured.
    pub(crate) fn growth_window(self) -> Duration {
        Duration::from_millis(self.choose(40, 400, 1_000))
    }

    pub(crate) fn warm_up(self) -> Duration {
        Duration::from_millis(self.choose(30, 150, 500))
    }

    /// Returns the number of cycles of each task while allocations are counted.
    pub(crate) fn counted_cycles(self) -> usize {
        self.choose(10, 100, 200)
    }

    pub(crate) fn waiters(self) -> usize {
        self.choose(20, 1_000, 1_000)
    }

    pub(crate) fn waiting(self) -> Duration {
        Duration::from_millis(self.choose(100, 2_500, 20_000))
    }

    pub(crate) fn held_locks(self) -> usize {
        self.choose(20, 2_000, 10_000)
    }

    /// Returns the number of renewals of held locks. A renewal takes place every third of the default lease, 10 s.
    pub(crate) fn renewals(self) -> u32 {
        self.choose(0, 3, 4)
    }
}

const CONTESTANTS: [Contestant; 7] = [
    Contestant::Fred,
    Contestant::RedisRs,
    Contestant::Fenced,
    Contestant::FencedRedisRs,
    Contestant::Hash,
    Contestant::SetNx,
    Contestant::Rslock,
];

fn one_task(effort: Effort) -> Vec<Case> {
    vec![case(effort, 1, Metric::CycleP50)]
}

fn many_tasks(effort: Effort) -> Vec<Case> {
    let tasks: &[usize] = match effort {
        Effort::Smoke => &[8],
        Effort::Quick => &[4, 64],
        Effort::Full => &[2, 4, 8, 16, 32, 64, 256, 1_024],
    };
    tasks.iter().map(|tasks| case(effort, *tasks, Metric::Rate)).collect()
}

fn quorum(effort: Effort) -> Vec<Case> {
    let case = |label: &str, contestants: &[Contestant], count, to: &[Contestant]| Case {
        label: label.to_owned(),
        measurement: cycles(effort, Load::uncontended(1, effort.long_window()), 1, Placement::Pinned, count),
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

/// Compares tasks that never wait for each other.
fn case(effort: Effort, tasks: usize, compared: Metric) -> Case {
    Case {
        series: None,
        label: format!("{tasks} task{}", if tasks == 1 { "" } else { "s" }),
        measurement: cycles(
            effort,
            Load::uncontended(tasks, effort.window()),
            1,
            Placement::Pinned,
            Some(effort.counted_cycles()),
        ),
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

/// Lets tasks of one process compete for one lock.
fn one_process(effort: Effort) -> Vec<Case> {
    let tasks: &[usize] = if effort == Effort::Smoke { &[16] } else { &[16, 128] };
    let case = |tasks| Case {
        series: None,
        label: format!("{tasks} tasks, no work"),
        measurement: cycles(
            effort,
            Load::contended(tasks, Work::Nothing, effort.window()),
            1,
            Placement::Free,
            None,
        ),
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

/// Lets tasks of four processes compete for one lock.
fn four_processes(effort: Effort) -> Vec<Case> {
    let tasks = if effort == Effort::Smoke { 4 } else { 32 };
    let case = |label: &str, work| Case {
        series: None,
        label: format!("{label}, {tasks} tasks each"),
        measurement: cycles(
            effort,
            Load::contended(tasks, work, effort.long_window()),
            4,
            Placement::Free,
            None,
        ),
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

fn hand_over(effort: Effort) -> Vec<Case> {
    // The pause is shorter than the time under the lock, so the other task is already waiting at each release.
    let load = Load {
        pause: Duration::from_millis(2),
        ..Load::contended(1, Work::Sleep(Duration::from_millis(5)), effort.window())
    };
    vec![Case {
        series: None,
        label: "2 processes, 1 task each, held for 5 ms".to_owned(),
        measurement: cycles(effort, load, 2, Placement::Free, None),
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

fn ratios() -> Vec<Ratio> {
    let to = |to| Ratio { metric: Metric::Rate, to };
    vec![to(Contestant::Hash), to(Contestant::Rslock)]
}

fn waiters(effort: Effort) -> Vec<Case> {
    let count = effort.waiters();
    vec![Case {
        series: None,
        label: format!("{count} waiters"),
        measurement: Measurement::Waiters {
            count,
            window: effort.waiting(),
            settle: effort.waiting().min(Duration::from_secs(1)),
        },
        contestants: [effort.clients(), &[Contestant::Hash]].concat(),
        rounds: 1,
        columns: vec![
            Metric::CommandRate,
            Metric::CommandRateBefore,
            Metric::HeapBytes,
            Metric::ResidentBytes,
        ],
        ratios: Vec::new(),
    }]
}

fn held(effort: Effort) -> Vec<Case> {
    let (count, renewals) = (effort.held_locks(), effort.renewals());
    vec![Case {
        series: None,
        label: format!("{count} locks, {renewals} periods"),
        measurement: Measurement::Held { count, window: RENEWED_EVERY * renewals, renewals },
        contestants: effort.clients().to_vec(),
        rounds: 1,
        columns: vec![
            Metric::HeapBytes,
            Metric::ResidentBytes,
            Metric::RenewalClientCpu,
            Metric::RenewalServerCpu,
        ],
        ratios: Vec::new(),
    }]
}

fn memory(effort: Effort) -> Vec<Case> {
    let case = |label: &str, load, count| Case {
        series: None,
        label: label.to_owned(),
        measurement: cycles(effort, load, 1, Placement::Free, count),
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

/// Compares each store with its floor.
fn stores(effort: Effort, stores: &[(&str, [Contestant; 2])]) -> Vec<Case> {
    let case = |label: &str, load, processes, compared, contestants: [Contestant; 2]| Case {
        series: None,
        label: label.to_owned(),
        measurement: cycles(effort, load, processes, Placement::Free, None),
        contestants: contestants.into(),
        rounds: effort.rounds(),
        columns: vec![
            Metric::Rate,
            Metric::CycleP50,
            Metric::HandoverP50,
            Metric::HandoverP99,
            Metric::ClientCpu,
        ],
        ratios: vec![Ratio { metric: compared, to: contestants[1] }],
    };
    let pause = Duration::from_millis(2);
    let hand_over =
        Load { pause, ..Load::contended(1, Work::Sleep(Duration::from_millis(5)), effort.long_window()) };
    let of = |name: &str, contestants| {
        [
            case(
                &format!("{name}: uncontended, 1 task"),
                Load::uncontended(1, effort.window()),
                1,
                Metric::CycleP50,
                contestants,
            ),
            case(
                &format!("{name}: uncontended, 16 tasks"),
                Load::uncontended(16, effort.window()),
                1,
                Metric::Rate,
                contestants,
            ),
            case(
                &format!("{name}: 2 processes, 1 task each, held for 5 ms"),
                hand_over.clone(),
                2,
                Metric::HandoverP50,
                contestants,
            ),
        ]
    };
    stores.iter().flat_map(|&(name, contestants)| of(name, contestants)).collect()
}

/// Compares permits with locks.
fn permits(effort: Effort) -> Vec<Case> {
    let case = |label: &str, measurement, contestants: [Contestant; 2], columns: &[Metric], compared| Case {
        series: None,
        label: label.to_owned(),
        measurement,
        contestants: contestants.into(),
        rounds: effort.rounds(),
        columns: columns.to_vec(),
        ratios: Vec::from_iter(compared)
            .into_iter()
            .map(|metric| Ratio { metric, to: Contestant::Fred })
            .collect(),
    };
    let alone = |tasks| {
        let load = Load::uncontended(tasks, effort.window());
        cycles(effort, load, 1, Placement::Free, None)
    };
    let hand_over = Load {
        pause: Duration::from_millis(2),
        ..Load::contended(1, Work::Sleep(Duration::from_millis(5)), effort.long_window())
    };
    let (count, window) = (effort.waiters(), effort.waiting());
    let waiters = Measurement::Waiters { count, window, settle: Duration::from_secs(4).min(window) };
    let rates = [Metric::Rate, Metric::CycleP50, Metric::ClientCpu, Metric::ServerCpu];
    let waits = [Metric::HandoverP50, Metric::HandoverP99];
    let memory = [Metric::CommandRate, Metric::HeapBytes, Metric::ResidentBytes];
    let (fair, one) = ([Contestant::Fair, Contestant::Fred], [Contestant::OneSemaphore, Contestant::Fred]);
    vec![
        case("uncontended, 1 task", alone(1), fair, &rates, Some(Metric::CycleP50)),
        case("64 tasks, a lock each or one semaphore", alone(64), one, &rates, Some(Metric::Rate)),
        case(
            "2 processes, 1 task each, held for 5 ms",
            cycles(effort, hand_over, 2, Placement::Free, None),
            fair,
            &waits,
            Some(Metric::HandoverP50),
        ),
        case(&format!("{count} waiters"), waiters, fair, &memory, None),
    ]
}

fn tower(effort: Effort) -> Vec<Case> {
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

/// Measures the growth of the cost with the number of names or processes. `parallel` has the growth with the number of tasks.
fn growth(effort: Effort) -> Vec<Case> {
    if effort == Effort::Smoke {
        return vec![by_processes(effort, 2)];
    }
    let names = [1, 100, 1_000, 10_000, 100_000].map(|names| by_names(effort, names));
    let processes = [1, 2, 4, 8].map(|processes| by_processes(effort, processes));
    [Vec::from(names), Vec::from(processes)].concat()
}

/// Compares numbers of names.
fn by_names(effort: Effort, names: usize) -> Case {
    let load = Load { names: Names::Own(names), ..Load::uncontended(TASKS, effort.growth_window()) };
    step(effort, "Names that 64 tasks of one process take in turn", counted(names, "name"), 1, load)
}

/// Compares numbers of processes. With more processes, the load approaches the limit of the server.
fn by_processes(effort: Effort, processes: usize) -> Case {
    let load = Load::uncontended(TASKS, effort.growth_window());
    let label = counted(processes, "process");
    let mut case = step(effort, "Processes of 64 tasks, a lock each", label, processes, load);
    case.columns.extend([Metric::ServerLoad, Metric::ServerLimit]);
    case
}

fn counted(count: usize, what: &str) -> String {
    match (count, what.ends_with('s')) {
        (1, _) => format!("1 {what}"),
        (_, true) => format!("{count} {what}es"),
        (_, false) => format!("{count} {what}s"),
    }
}

fn step(effort: Effort, series: &'static str, label: String, processes: usize, load: Load) -> Case {
    Case {
        series: Some(series),
        label,
        measurement: cycles(effort, load, processes, Placement::Apart, None),
        contestants: vec![Contestant::Fred, Contestant::RedisRs, Contestant::Hash],
        rounds: effort.growth_rounds(),
        columns: vec![Metric::Rate, Metric::CycleP50, Metric::WaitP99, Metric::ClientCpu, Metric::ServerCpu],
        ratios: vec![Ratio { metric: Metric::Rate, to: Contestant::Hash }],
    }
}

/// Returns the measurement of cycles of this load in this many processes. If `count` is set, allocations are counted as well.
fn cycles(
    effort: Effort,
    load: Load,
    processes: usize,
    placement: Placement,
    count: Option<usize>,
) -> Measurement {
    Measurement::Cycles { load, processes, placement, warm_up: effort.warm_up(), count }
}
