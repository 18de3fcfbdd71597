//! One turn of a contestant and its figures.

use super::session::{Placement, Session};
use crate::{
    Result,
    contestants::Contestant,
    jobs::{Used, allocations::Allocations, held::Kept, requests::Answered, waiters::Waited},
    load::Load,
    measure::{exclusion, nanos, summarize},
    metric::{Figures, Metric},
    order::{Job, Subject},
};
use std::time::Duration;

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
    exclusion::check(&mut sections)?;
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
