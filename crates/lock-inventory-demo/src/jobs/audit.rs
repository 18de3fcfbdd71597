//! The nightly audit of the books, which runs while the shops sell.

use crate::{domain::Audit, shop::Shop};
use lock_cron::{RunContext, RunResult};
use std::sync::Arc;

/// Audits the books. Breaches fail the run, so they appear in the history and the metrics.
pub(super) async fn run(shop: Arc<Shop>, run: RunContext) -> RunResult {
    let audit = Audit::of(&shop.store().books().await?, None);
    shop.store().keep_audit(&run.id().to_string(), &audit).await?;
    match audit.breaches.first() {
        None => Ok(()),
        Some(first) => {
            Err(format!("the audit found {} breach(es); the first is: {first}", audit.breaches.len()).into())
        }
    }
}
