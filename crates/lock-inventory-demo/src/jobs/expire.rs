//! Gives the pieces of expired reservations back.

use crate::{domain::ReservationState, shop::Shop};
use lock_cron::{RunContext, RunResult, UtcTime};
use std::sync::Arc;

/// What it does not finish is still due at the next run. A stale attempt has written nothing.
pub(super) async fn run(shop: Arc<Shop>, run: RunContext) -> RunResult {
    for reservation in shop.store().reservations_due(UtcTime::now().as_millis()).await? {
        if run.is_cancelled() {
            break;
        }
        shop.give_back(&reservation, ReservationState::Expired).await?;
    }
    Ok(())
}
