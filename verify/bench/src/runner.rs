//! Runs the cases of a workload in rounds and turns: each turn of a contestant has servers and processes of its own, and yields
//! figures.

use crate::{
    Result,
    contestants::Contestant,
    jobs::{Allocations, Kept, Used, Waited},
    load::Load,
    machine::{Split, nanos, now, pin},
    metric::{Figures, Metric},
    order::{Answer, Job, Order, Subject, Worker},
    requests::Answered,
    sections::{Section, check, read, summarize},
};
use lock_testkit::{EtcdCluster, PostgresServer, RedisServer, ZooKeeperEnsemble};
use serde::de::DeserializeOwned;
use std::{path::PathBuf, time::Duration};
use tempfile::TempDir;

/// A comparison under one load.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// Title of the series, shared by the neighbouring cases of the same series.
    pub(crate) series: Option<&'static str>,
    pub(crate) label: String,
    pub(crate) measurement: Measurement,
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) rounds: usize,
    /// Figures that tables show.
    pub(crate) columns: Vec<Metric>,
    /// Figures that are compared with another contestant in the same round.
    pub(crate) ratios: Vec<Ratio>,
}

/// A figure relative to the same figure of another contestant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) metric: Metric,
    pub(crate) to: Contestant,
}

/// The figures of one contestant, by round.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) contestant: Contestant,
    pub(crate) rounds: Vec<Figures>,
}

impl Case {
    /// Runs all rounds. Contestants take turns, and each round starts with a different one.
    ///
    /// Fails at the first contestant that violates exclusion or the order of tokens, loses a lock, or hangs.
    pub(crate) fn run(&self) -> Result<Vec<Samples>> {
        let built_in = self.contestants.iter().copied().filter(|contestant| contestant.is_built_in());
        let mut samples: Vec<Samples> =
            built_in.map(|contestant| Samples { contestant, rounds: Vec::new() }).collect();
        for round in 0..self.rounds {
            let turns = samples.len();
            for turn in 0..turns {
                let Samples { contestant, rounds } = &mut samples[(turn + round) % turns];
                let figures = self.measurement.figures(*contestant, round).map_err(|error| {
                    format!("{}, {}, round {}: {error}", self.label, contestant.label(), round + 1)
                })?;
                rounds.push(figures);
            }
        }
        Ok(samples)
    }
}

/// A kind of measurement with its size.
#[derive(Debug, Clone)]
pub(crate) enum Measurement {
    /// Cycles. If `count` is set, each task makes this many additional cycles, in which allocations are counted.
    Cycles { load: Load, processes: usize, placement: Placement, warm_up: Duration, count: Option<usize> },
    /// Tasks that wait for a lock that stays held.
    Waiters { count: usize, window: Duration, settle: Duration },
    /// Held locks, each renewed `renewals` times.
    Held { count: usize, window: Duration, renewals: u32 },
    /// Sequential requests.
    Requests { window: Duration },
}

impl Measurement {
    /// Runs the measurement once. Figures that never vary are only measured in round 0.
    pub(crate) fn figures(&self, contestant: Contestant, round: usize) -> Result<Figures> {
        match self {
            Self::Cycles { load, processes, placement, warm_up, count } => {
                let mut figures = cycles(contestant, load, *processes, *placement, *warm_up)?;
                if let (Some(each), 0) = (*count, round) {
                    let counted = allocations(contestant, Subject::Cycles { tasks: load.tasks, each })?;
                    figures.insert(Metric::Allocations, counted.count as f64 / counted.units as f64);
                    figures.insert(Metric::AllocatedBytes, counted.bytes as f64 / counted.units as f64);
                }
                Ok(figures)
            }
            Self::Waiters { count, window, settle } => {
                let session = Session::open(contestant, Placement::Free)?;
                let job = Job::Waiters { count: *count, window: *window };
                let waited: Waited = session.run(&job, 1, Duration::ZERO)?.one()?;
                let heap = allocations(contestant, Subject::Waiters { count: *count, settle: *settle })?;
                Ok(Figures::from([
                    (Metric::CommandRate, waited.commands as f64 / window.as_secs_f64()),
                    (Metric::CommandRateBefore, waited.commands_before as f64 / window.as_secs_f64()),
                    (Metric::ResidentBytes, waited.resident as f64 / *count as f64),
                    (Metric::HeapBytes, heap.live as f64 / heap.units as f64),
                ]))
            }
            Self::Held { count, window, renewals } => held(contestant, *count, *window, *renewals),
            Self::Requests { window } => {
                let session = Session::open(contestant, Placement::Free)?;
                let job = Job::Requests { window: *window };
                let answered: Answered = session.run(&job, 1, Duration::ZERO)?.one()?;
                let time = answered.elapsed as f64 / 1e9 / answered.requests as f64;
                Ok(Figures::from([(Metric::RequestTime, time)]))
            }
        }
    }
}

fn cycles(
    contestant: Contestant,
    load: &Load,
    processes: usize,
    placement: Placement,
    warm_up: Duration,
) -> Result<Figures> {
    let session = Session::open(contestant, placement)?;
    let outcome = session.run(&Job::Cycles(load.clone()), processes, warm_up)?;
    let (start, end) = (outcome.start, outcome.start + nanos(load.window));
    let used: Vec<Used> = outcome.all()?;
    let mut sections = session.sections(processes)?;
    check(&mut sections)?;
    let mut figures = summarize(&sections, start, end, processes, load.tasks);
    let cycles = figures.get(&Metric::Rate).copied().unwrap_or_default() * load.window.as_secs_f64();
    if cycles > 0.0 {
        let sum = |part: fn(&Used) -> u64| used.iter().map(part).sum::<u64>() as f64;
        figures.insert(Metric::ClientCpu, sum(|used| used.client.cpu) / 1e9 / cycles);
        figures.insert(Metric::VoluntarySwitches, sum(|used| used.client.voluntary_switches) / cycles);
        figures.insert(Metric::InvoluntarySwitches, sum(|used| used.client.involuntary_switches) / cycles);
        if contestant.servers() > 0 {
            // Every process measured the servers during the same window, so the sum is divided by the number of
            // processes.
            let server = sum(|used| used.server.cpu) / processes as f64;
            let busy = server / nanos(load.window) as f64;
            figures.insert(Metric::ServerCpu, server / 1e9 / cycles);
            figures.insert(Metric::ServerLoad, busy);
            // Redis runs scripts on one thread. At full load, its rate is the present rate divided by the fraction of
            // time in which it is busy.
            figures.insert(Metric::ServerLimit, cycles / load.window.as_secs_f64() / busy);
        }
    }
    Ok(figures)
}

fn held(contestant: Contestant, count: usize, window: Duration, renewals: u32) -> Result<Figures> {
    let session = Session::open(contestant, Placement::Free)?;
    let kept: Kept = session.run(&Job::Held { count, window }, 1, Duration::ZERO)?.one()?;
    let heap = allocations(contestant, Subject::Held { count })?;
    let mut figures = Figures::from([
        (Metric::ResidentBytes, kept.resident as f64 / count as f64),
        (Metric::HeapBytes, heap.live as f64 / heap.units as f64),
    ]);
    if renewals > 0 {
        let renewed = f64::from(renewals) * count as f64;
        figures.insert(Metric::RenewalClientCpu, kept.used.client.cpu as f64 / 1e9 / renewed);
        figures.insert(Metric::RenewalServerCpu, kept.used.server.cpu as f64 / 1e9 / renewed);
    }
    Ok(figures)
}

fn allocations(contestant: Contestant, subject: Subject) -> Result<Allocations> {
    let session = Session::open(contestant, Placement::Free)?;
    session.run(&Job::Allocations(subject), 1, Duration::ZERO)?.one()
}

/// The servers of one measurement. They end when the session is dropped.
struct Session {
    contestant: Contestant,
    servers: Vec<RedisServer>,
    other: Option<Other>,
    client_cpus: Vec<usize>,
    records: TempDir,
}

/// A server that is no Redis.
enum Other {
    Postgres(PostgresServer),
    Etcd(EtcdCluster),
    ZooKeeper(ZooKeeperEnsemble),
}

impl Other {
    fn start(contestant: Contestant) -> Option<Self> {
        match contestant {
            Contestant::Postgres | Contestant::PostgresFloor => {
                Some(Self::Postgres(PostgresServer::with_settings(&["fsync=on"])))
            }
            Contestant::Etcd | Contestant::EtcdFloor => Some(Self::Etcd(EtcdCluster::start(1))),
            Contestant::ZooKeeper | Contestant::ZooKeeperFloor => {
                Some(Self::ZooKeeper(ZooKeeperEnsemble::start(1)))
            }
            _ => None,
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Postgres(server) => server.url(),
            Self::Etcd(cluster) => cluster.url(),
            Self::ZooKeeper(ensemble) => ensemble.url(),
        }
    }
}

/// The answers of a job's processes.
struct Outcome {
    /// Instant at which measuring started.
    start: u64,
    answers: Vec<Answer>,
}

/// The assignment of processors to servers and clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// One processor for the servers and one for all clients.
    Pinned,
    /// One processor for the servers and all others for the clients.
    Apart,
    /// All processors for both.
    Free,
}

impl Session {
    /// Starts as many fresh servers as the contestant needs.
    fn open(contestant: Contestant, placement: Placement) -> Result<Self> {
        let servers: Vec<_> = (0..contestant.servers()).map(|_| RedisServer::start()).collect();
        let mut client_cpus = Vec::new();
        if placement != Placement::Free {
            let split = Split::choose()?;
            client_cpus = split.clients;
            if placement == Placement::Pinned {
                client_cpus.truncate(1);
            }
            for server in servers.iter().filter_map(RedisServer::pid) {
                pin(server, &[split.server])?;
            }
        }
        Ok(Self {
            contestant,
            servers,
            other: Other::start(contestant),
            client_cpus,
            records: TempDir::new()?,
        })
    }

    /// Runs the job in this many processes. All of them start measuring at the same instant, after this warm-up time.
    fn run(&self, job: &Job, processes: usize, warm_up: Duration) -> Result<Outcome> {
        let start_worker = |process| {
            Worker::start(&Order {
                contestant: self.contestant,
                url: self.url(),
                servers: self.servers.iter().filter_map(RedisServer::pid).collect(),
                cpus: self.client_cpus.clone(),
                process,
                records: self.file(process),
                job: job.clone(),
            })
        };
        let mut workers = (0..processes).map(start_worker).collect::<Result<Vec<_>>>()?;
        workers.iter_mut().try_for_each(Worker::wait_until_ready)?;
        self.servers[..self.contestant.stopped_servers()].iter().for_each(RedisServer::pause);
        let start = now() + nanos(warm_up);
        workers.iter_mut().try_for_each(|worker| worker.start_at(start))?;
        let answers = workers.iter_mut().map(Worker::answer).collect::<Result<_>>()?;
        Ok(Outcome { start, answers })
    }

    /// Reads the records of the processes.
    fn sections(&self, processes: usize) -> Result<Vec<Section>> {
        let mut all = Vec::new();
        for process in 0..processes {
            all.extend(read(&self.file(process), process as u64)?);
        }
        Ok(all)
    }

    fn url(&self) -> String {
        if let Some(other) = &self.other {
            return other.url();
        }
        match &self.servers[..] {
            [] if matches!(self.contestant, Contestant::Sqlite | Contestant::SqliteFloor) => {
                format!("sqlite:{}", self.records.path().join("locks.db").display())
            }
            [] => String::new(),
            [one] => one.url(),
            several => {
                let nodes = several.iter().map(|server| server.address().to_string());
                format!("redlock://{}", nodes.collect::<Vec<_>>().join(","))
            }
        }
    }

    fn file(&self, process: usize) -> PathBuf {
        self.records.path().join(format!("process-{process}"))
    }
}

impl Outcome {
    fn all<T: DeserializeOwned>(self) -> Result<Vec<T>> {
        let parse = |answer| Ok(serde_json::from_value(answer)?);
        self.answers.into_iter().map(parse).collect()
    }

    /// Returns the answer of the only process.
    fn one<T: DeserializeOwned>(self) -> Result<T> {
        self.all()?.pop().ok_or_else(|| "no process answered".into())
    }
}
