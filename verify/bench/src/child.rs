//! The child process, which does one job for the runner.

use crate::{
    Result,
    contestants::{self, Contestant, Locks},
    jobs,
    measure::pinning,
    order::{Answer, Job, Order},
};
use std::process;

/// Executes an order. The process ends afterwards.
pub(crate) fn execute(order: &Order) -> Result<()> {
    if !order.cpus.is_empty() {
        pinning::pin(process::id(), &order.cpus)?;
    }
    let answer = match order.contestant {
        Contestant::Fred => with::<contestants::Fred>(order),
        Contestant::FredOtel => with::<contestants::FredOtel>(order),
        Contestant::RedisRs => with::<contestants::RedisRs>(order),
        Contestant::Memory => with::<contestants::Memory>(order),
        Contestant::Fenced => with::<contestants::Fenced>(order),
        Contestant::FencedRedisRs => with::<contestants::FencedRedisRs>(order),
        Contestant::Hash => with::<contestants::Hash>(order),
        Contestant::Queue => with::<contestants::Queue>(order),
        Contestant::HandOff => with::<contestants::HandOff>(order),
        Contestant::SetNx => with::<contestants::SetNx>(order),
        #[cfg(feature = "rslock")]
        Contestant::Rslock | Contestant::RslockQuorum | Contestant::RslockQuorumOneStopped => {
            with::<contestants::Rslock>(order)
        }
        #[cfg(not(feature = "rslock"))]
        Contestant::Rslock | Contestant::RslockQuorum | Contestant::RslockQuorumOneStopped => {
            Err("the feature `rslock` is off".into())
        }
        Contestant::Quorum | Contestant::QuorumOneStopped => with::<contestants::Quorum>(order),
        Contestant::QuorumFloor => with::<contestants::QuorumFloor>(order),
        Contestant::TokioMutex => with::<contestants::TokioMutex>(order),
        Contestant::Layer | Contestant::LayerFloor | Contestant::Handler => requests(order),
    };
    println!("{}", serde_json::to_string(&answer?)?);
    Ok(())
}

fn with<L: Locks>(order: &Order) -> Result<Answer> {
    match &order.job {
        Job::Cycles(load) => jobs::cycles::run::<L>(order, load),
        Job::Allocations(subject) => jobs::allocations::run::<L>(order, subject),
        Job::Waiters { count, window } => jobs::waiters::run::<L>(order, *count, *window),
        Job::Held { count, window } => jobs::held::run::<L>(order, *count, *window),
        Job::Requests { .. } => requests(order),
    }
}

fn requests(order: &Order) -> Result<Answer> {
    match order.job {
        Job::Requests { window } => jobs::requests::run(order, window),
        _ => Err(format!("{} is not a lock", order.contestant.label()).into()),
    }
}
