//! The jobs that a process can do for a measurement.

pub(crate) mod allocations;
pub(crate) mod cycles;
pub(crate) mod held;
mod layer_floor;
pub(crate) mod requests;
pub(crate) mod waiters;

use crate::{
    Result,
    measure::{Usage, nanos, now},
    order::Order,
};
use lock_testkit::RawRedis;
use serde::{Deserialize, Serialize};
use std::{process, thread, time::Duration};

/// The time after the window at which an unfinished job counts as hanging.
const OVERTIME: Duration = Duration::from_secs(60);

/// The resources that client and servers used during a window.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Used {
    pub(crate) client: Usage,
    pub(crate) server: Usage,
}

impl Used {
    /// Measures the resources used during the window that begins at `start`. Blocks until the window ends.
    fn during(order: &Order, start: u64, window: Duration) -> Result<Self> {
        sleep_until(start);
        let before = Self::until_now(order)?;
        sleep_until(start + nanos(window));
        let after = Self::until_now(order)?;
        Ok(Self { client: after.client - before.client, server: after.server - before.server })
    }

    fn until_now(order: &Order) -> Result<Self> {
        let mut server = Usage::default();
        for process in &order.servers {
            server = server + Usage::of(*process)?;
        }
        Ok(Self { client: Usage::of(process::id())?, server })
    }
}

fn sleep_until(instant: u64) {
    thread::sleep(Duration::from_nanos(instant.saturating_sub(now())));
}

/// Returns the number of commands that the server has executed, including those inside scripts and excluding this
/// function's `INFO`.
fn commands(order: &Order) -> Result<u64> {
    let address = order.url.strip_prefix("redis://").unwrap_or(&order.url);
    let answer = RawRedis::connect(address.parse()?)?.try_command(&["INFO", "commandstats"])?;
    let calls = answer.text().lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls: u64 = rest.split(',').next()?.parse().ok()?;
        Some(calls).filter(|_| name != "info")
    });
    Ok(calls.sum())
}
