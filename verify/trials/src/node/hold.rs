//! One hold at a time, by order.

use super::{Failure, Orders};
use crate::{
    fenced::FencedTable,
    line::{now, say},
    referee::Witness,
};
use lock_core::{Lock, LockGuard};
use std::{path::Path, time::Duration};

pub(super) async fn obey(
    lock: &Lock,
    witness: Option<(Witness, Duration)>,
    orders: &mut Orders,
) -> Result<(), Failure> {
    let enters =
        |guard: &LockGuard| witness.as_ref().map(|(witness, lease)| witness.enters(guard, *lease / 20));
    let mut guard = acquire(lock).await?;
    let mut inside = enters(&guard);
    let mut table: Option<FencedTable> = None;
    let mut read = None;
    loop {
        let order = orders.next().await;
        match order.split_once(' ').unwrap_or((&order, "")) {
            ("release", _) => {
                drop(inside.take());
                let outcome = guard.release().await?;
                say(format_args!("released at={} was_held={}", now(), outcome.was_held()));
                orders.wait_for("acquire").await;
                guard = acquire(lock).await?;
                inside = enters(&guard);
            }
            ("is_held", _) => say(format_args!("is_held {}", guard.is_held())),
            ("read", file) => {
                // It stays open: a process that is paused while it closes a database locks it for all.
                let opened = FencedTable::open(Path::new(file)).await?;
                let value = table.insert(opened).read(guard.fencing_token()).await?;
                say(format_args!("read {}", if value.is_some() { "fresh" } else { "stale" }));
                read = value;
            }
            ("write", _) => {
                let (Some(table), Some(before)) = (&table, read) else {
                    return Err("a write comes after a fresh read".into());
                };
                let written = table.write(guard.fencing_token(), before + 1).await?;
                say(format_args!("write {}", if written { "done" } else { "stale" }));
            }
            ("quit", _) => return Ok(()),
            (other, _) => return Err(format!("the order {other:?} is unknown").into()),
        }
    }
}

async fn acquire(lock: &Lock) -> Result<LockGuard, Failure> {
    let guard = lock.acquire().await?;
    say(format_args!("held token={} at={}", guard.fencing_token(), now()));
    Ok(guard)
}
