//! Counts allocations on a separate single-threaded runtime, so that the numbers are reproducible and the counting does
//! not slow down other measurements.

use crate::{
    Result,
    contestants::{Lock, Locks},
    order::{Answer, Order, Subject, wait_for_start},
};
use allocation_counter::{AllocationInfo, measure};
use serde::{Deserialize, Serialize};
use tokio::{runtime::Builder, task::JoinSet, time::sleep};

/// The allocations of a subject.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Allocations {
    /// Number of cycles, waiters or locks.
    pub(crate) units: usize,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// Bytes that were still allocated at the end.
    pub(crate) live: i64,
}

impl Allocations {
    fn of(units: usize, info: AllocationInfo) -> Self {
        Self { units, count: info.count_total, bytes: info.bytes_total, live: info.bytes_current }
    }
}

pub(crate) fn run<L: Locks>(order: &Order, subject: &Subject) -> Result<Answer> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let counted = |work: &mut dyn FnMut() -> Result<usize>| {
        let mut units = Ok(0);
        let info = measure(|| units = work());
        units.map(|units| Allocations::of(units, info))
    };
    let client = runtime.block_on(L::connect(&order.url))?;
    wait_for_start()?;
    let allocations = match *subject {
        Subject::Cycles { tasks, each } => {
            let locks =
                (0..tasks).map(|task| client.lock(&format!("own:{task}"))).collect::<Result<Vec<_>>>()?;
            // The first run does not count, because connections and tables are still growing.
            runtime.block_on(cycles(&locks, each))?;
            counted(&mut || runtime.block_on(cycles(&locks, each)))
        }
        Subject::Waiters { count, settle } => {
            let holder = runtime.block_on(L::connect(&order.url))?;
            let _held = runtime.block_on(holder.lock("held")?.acquire())?;
            let lock = client.lock("held")?;
            let mut waiters = JoinSet::new();
            counted(&mut || {
                runtime.block_on(async {
                    for _ in 0..count {
                        waiters.spawn(wait(lock.clone()));
                    }
                    sleep(settle).await;
                });
                Ok(count)
            })
        }
        Subject::Held { count } => {
            let locks = (0..count)
                .map(|number| client.lock(&format!("held:{number}")))
                .collect::<Result<Vec<_>>>()?;
            let mut held = Vec::with_capacity(count);
            counted(&mut || {
                runtime.block_on(async {
                    for lock in &locks {
                        held.push(lock.acquire().await?);
                    }
                    Ok(held.len())
                })
            })
        }
    };
    Ok(serde_json::to_value(allocations?)?)
}

async fn cycles<L: Lock>(locks: &[L], each: usize) -> Result<usize> {
    let mut tasks = JoinSet::new();
    for lock in locks {
        let lock = lock.clone();
        tasks.spawn(async move {
            for _ in 0..each {
                lock.release(lock.acquire().await?).await?;
            }
            Result::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(locks.len() * each)
}

/// Waits for a lock that is never released.
pub(super) async fn wait<L: Lock>(lock: L) -> Result<()> {
    let held = lock.acquire().await?;
    lock.release(held).await
}
