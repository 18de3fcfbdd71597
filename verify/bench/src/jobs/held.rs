//! Locks that are held while the watchdog renews them.

use super::Used;
use crate::{
    Result,
    contestants::{Lock, Locks},
    measure::{now, resident_bytes},
    order::{Answer, Order, wait_for_start},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::runtime::Runtime;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Increase of resident memory through the held locks, in bytes.
    pub(crate) resident: u64,
    pub(crate) used: Used,
}

pub(crate) fn run<L: Locks>(order: &Order, count: usize, window: Duration) -> Result<Answer> {
    let runtime = Runtime::new()?;
    let client = runtime.block_on(L::connect(&order.url))?;
    let locks =
        (0..count).map(|number| client.lock(&format!("held:{number}"))).collect::<Result<Vec<_>>>()?;
    let mut held = Vec::with_capacity(count);
    wait_for_start()?;
    let before = resident_bytes()?;
    runtime.block_on(async {
        for lock in &locks {
            held.push(lock.acquire().await?);
        }
        Result::Ok(())
    })?;
    let resident = resident_bytes()?.saturating_sub(before);
    let used = Used::during(order, now(), window)?;
    // A release fails if its lock was lost, so this shows that every lock was renewed in time.
    runtime.block_on(async {
        for (lock, held) in locks.iter().zip(held) {
            lock.release(held).await?;
        }
        Result::Ok(())
    })?;
    Ok(serde_json::to_value(Kept { resident, used })?)
}
