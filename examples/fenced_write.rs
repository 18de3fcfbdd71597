//! How do I keep a holder that was suspended past its lease from overwriting the work of its successor?
//!
//! No lock can do that: the resource has to refuse the write, by its fencing token, on the read **and** on the write.
//! If only writes were fenced, the late write below would be accepted and one sale lost.

use lock_core::{FencingToken, LockFactory, MemoryBackend};
use std::{error::Error, time::Duration};

/// A row of a table. Each method is one SQL statement.
struct Sku {
    stock: i64,
    fence: i64,
}

impl Sku {
    /// `update sku set fence = $t where id = $1 and fence <= $t returning stock`; no row means stale.
    fn read(&mut self, t: FencingToken) -> Option<i64> {
        if self.fence > t.as_i64() {
            return None;
        }
        self.fence = t.as_i64();
        Some(self.stock)
    }

    /// `update sku set stock = $new where id = $1 and fence = $t`; no row means stale.
    fn write(&mut self, t: FencingToken, new: i64) -> Option<()> {
        if self.fence != t.as_i64() {
            return None;
        }
        self.stock = new;
        Some(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryBackend::new();
    let (process_a, process_b) = (LockFactory::new(store.clone()), LockFactory::new(store));
    let mut sku = Sku { stock: 10, fence: 0 };

    let zombie = process_a.named("sku:1")?.with_fixed_lease(Duration::from_millis(200))?.acquire().await?;
    let old = zombie.fencing_token();
    let seen_by_a = sku.read(old).ok_or("the first holder is stale")?;
    println!("A holds token {old}, reads {seen_by_a}, and is suspended");

    let guard = process_b.named("sku:1")?.acquire().await?; // waits until A's lease has ended
    let new = guard.fencing_token();
    assert!(new > old);
    let seen_by_b = sku.read(new).ok_or("the second holder is stale")?;
    println!("A's lease has ended; B holds token {new} and reads {seen_by_b}");

    // The worst moment: B has read but not yet written.
    let late = sku.write(old, seen_by_a - 1);
    println!("A wakes up and writes: {}", answer(late));
    assert_eq!(late, None);

    let written = sku.write(new, seen_by_b - 1);
    println!("B writes: {}", answer(written));
    assert_eq!(written, Some(()));

    let late = sku.read(old).map(drop);
    println!("A reads again: {}", answer(late));
    assert_eq!(late, None);

    println!("stock is {}: one sale was accepted and subtracted", sku.stock);
    assert_eq!(sku.stock, 9);
    println!("{:?}", guard.release().await); // no `?`: the sale is written, whatever happened to the lock
    Ok(())
}

fn answer(rows: Option<()>) -> &'static str {
    if rows.is_some() { "accepted" } else { "refused as stale" }
}
