//! The job that restocks products.

use crate::shop::Shop;
use lock_cron::{RunContext, RunResult};
use std::sync::Arc;

/// Restocks products. The run's id is stored with its effect, so a second attempt detects it.
pub(super) async fn run(shop: Arc<Shop>, run: RunContext) -> RunResult {
    let id = run.id().to_string();
    for (sku, missing) in shop.store().running_out(shop.config.restock_below).await? {
        if run.is_cancelled() {
            break;
        }
        let guard = shop.lock(&sku)?.acquire_timeout(shop.config.wait).await?;
        let changed = shop.store().restock(&id, &sku, missing, guard.fencing_token()).await;
        let _ = guard.release().await;
        changed?;
    }
    Ok(())
}
