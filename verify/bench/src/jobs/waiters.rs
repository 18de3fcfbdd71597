//! Tasks that wait for a lock that another client holds. They should cause no load on Redis: as many commands as without
//! them, for renewals and for the connections.

use super::{allocations::wait, commands, sleep_until};
use crate::{
    Result,
    contestants::{Lock, Locks},
    measure::{nanos, now, resident_bytes},
    order::{Answer, Order, wait_for_start},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::{runtime::Runtime, task::JoinSet};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Waited {
    /// Increase of resident memory through the waiters, in bytes.
    pub(crate) resident: u64,
    /// Number of commands that the server executed during the window.
    pub(crate) commands: u64,
    /// Number of commands in a window of the same length before the first waiter.
    pub(crate) commands_before: u64,
}

/// The time for every task to try once and to subscribe.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) fn run<L: Locks>(order: &Order, count: usize, window: Duration) -> Result<Answer> {
    let runtime = Runtime::new()?;
    // The second client excludes the first one like another process.
    let holder = runtime.block_on(L::connect(&order.url))?;
    let client = runtime.block_on(L::connect(&order.url))?;
    let to_hold = holder.lock("held")?;
    let held = runtime.block_on(to_hold.acquire())?;
    let lock = client.lock("held")?;
    wait_for_start()?;
    let commands_before = commands_during(order, window)?;
    // A lock that is not renewed would not last for both windows.
    runtime.block_on(to_hold.release(held))?;
    let _held = runtime.block_on(to_hold.acquire())?;
    let before = resident_bytes()?;
    let mut waiters = JoinSet::new();
    for _ in 0..count {
        waiters.spawn_on(wait(lock.clone()), runtime.handle());
    }
    sleep_until(now() + nanos(SETTLE));
    let resident = resident_bytes()?.saturating_sub(before);
    let commands = commands_during(order, window)?;
    if let Some(ended) = runtime.block_on(async { waiters.try_join_next() }) {
        return Err(format!("a waiter ended while the lock was held: {ended:?}").into());
    }
    Ok(serde_json::to_value(Waited { resident, commands, commands_before })?)
}

fn commands_during(order: &Order, window: Duration) -> Result<u64> {
    let before = commands(order)?;
    sleep_until(now() + nanos(window));
    Ok(commands(order)? - before)
}
