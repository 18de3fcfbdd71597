//! A common homemade lock: `SET key 1 NX PX ttl`, with `DEL key` at the end.
//!
//! This lock has two faults. It is not renewed, so a section that takes longer than the TTL
//! overlaps the next one. Its `DEL` then deletes the next section's lock, which admits a third
//! section.

use super::{
    sections,
    seller::{SellError, Seller},
};
use crate::domain::{Order, Outcome};
use std::time::Duration;
use tokio::time::sleep;

/// The TTL of the lock, which is longer than any payment without a fault.
pub const SETNX_TTL: Duration = Duration::from_millis(50);

/// Pause between two attempts.
const RETRY: Duration = Duration::from_millis(2);

pub(super) async fn sell(seller: &Seller, order: &Order) -> Result<Outcome, SellError> {
    let redis = seller.redis()?;
    let key = format!("{}setnx:{}", redis.prefix(), order.sku);
    while !redis.set_if_absent(&key, "1", Some(SETNX_TTL)).await? {
        sleep(RETRY).await;
    }
    let outcome = sections::unfenced(seller, order, None).await;
    redis.delete(&key).await?;
    outcome
}
