//! The job that returns the units of expired reservations to stock.

use crate::{domain::ReservationState, shop::Shop};
use lock_cron::{RunContext, RunResult, UtcTime};
use std::sync::Arc;

/// Expires due reservations. The next run handles those that this run does not reach. A stale
/// attempt writes nothing.
pub(super) async fn run(shop: Arc<Shop>, run: RunContext) -> RunResult {
    for reservation in shop.store().reservations_due(UtcTime::now()).await? {
        if run.is_cancelled() {
            break;
        }
        shop.give_back(&reservation, ReservationState::Expired).await?;
    }
    Ok(())
}
