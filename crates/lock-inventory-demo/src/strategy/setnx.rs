//! The lock that many teams write first: `SET key 1 NX PX ttl`, and `DEL key` at the end.
//!
//! Two faults: nobody renews it, so that a section that takes longer than the TTL runs beside the next one; and its `DEL`
//! then deletes the lock of that next one, which lets a third one in.

use super::{
    sections,
    seller::{SellError, Seller},
};
use crate::domain::{Order, Outcome};
use std::time::Duration;
use tokio::time::sleep;

/// The TTL of the lock: longer than any payment without a fault.
pub const SETNX_TTL: Duration = Duration::from_millis(50);

/// The pause between two attempts.
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
