//! One hold at a time, controlled by orders.

use super::{Failure, Orders};
use crate::{
    fenced::FencedTable,
    line::{Order, Report, now},
    referee::Witness,
};
use lock_core::{Lock, LockGuard};
use std::time::Duration;

pub(super) async fn obey(
    lock: &Lock,
    witness: Option<(Witness, Duration)>,
    orders: &mut Orders,
) -> Result<(), Failure> {
    let enters = |guard: &LockGuard| {
        witness.as_ref().map(|(witness, lease)| witness.enters(guard.hold(), *lease / 20))
    };
    let mut guard = acquire(lock).await?;
    let mut inside = enters(&guard);
    let mut table: Option<FencedTable> = None;
    let mut read = None;
    loop {
        match orders.next().await {
            Order::Release => {
                drop(inside.take());
                let outcome = guard.release().await?;
                Report::Released { at: now(), was_held: outcome.was_held() }.say();
                orders.wait_for(&Order::Acquire).await;
                guard = acquire(lock).await?;
                inside = enters(&guard);
            }
            Order::IsHeld => Report::IsHeld { held: guard.is_held() }.say(),
            Order::Lost => Report::Lost { reason: format!("{:?}", guard.lost().await) }.say(),
            Order::Read { file } => {
                // The table stays open: a process that is suspended while it closes a database locks it for all others.
                let opened = FencedTable::open(&file).await?;
                let value = table.insert(opened).read(guard.fencing_token()).await?;
                Report::Read { fresh: value.is_some() }.say();
                read = value;
            }
            Order::Write => {
                let (Some(table), Some(before)) = (&table, read) else {
                    return Err("a write requires a fresh read before it".into());
                };
                let accepted = table.write(guard.fencing_token(), before + 1).await?;
                Report::Write { accepted }.say();
            }
            Order::Quit => return Ok(()),
            other => return Err(format!("a holder does not know the order {other:?}").into()),
        }
    }
}

async fn acquire(lock: &Lock) -> Result<LockGuard, Failure> {
    let guard = lock.acquire().await?;
    Report::Held { token: guard.fencing_token().get(), at: now() }.say();
    Ok(guard)
}
