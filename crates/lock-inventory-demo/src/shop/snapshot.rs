//! A shop's state as JSON. The database is read at most once every 200 ms, no matter
//! how many viewers there are.

use super::Shop;
use crate::store::StoreError;
use lock_cron::CronError;
use serde_json::{Value, json};
use std::{
    process,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Mutex, time::timeout};

/// Time for which a snapshot is reused.
pub(crate) const FRESH: Duration = Duration::from_millis(200);

/// Time limit for reading the jobs. If their store does not respond, the remaining state is still
/// shown.
const JOBS_WITHIN: Duration = Duration::from_millis(100);

/// The latest snapshot and the latest known jobs.
#[derive(Debug)]
pub(crate) struct Board {
    last: Mutex<Option<(Instant, Arc<str>)>>,
    jobs: Mutex<Value>,
}

impl Default for Board {
    fn default() -> Self {
        Self { last: Mutex::default(), jobs: Mutex::new(json!([])) }
    }
}

impl Shop {
    /// Returns the state as JSON text.
    pub(crate) async fn snapshot(&self) -> Result<Arc<str>, StoreError> {
        let mut last = self.board.last.lock().await;
        if let Some((at, text)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let text: Arc<str> = self.look().await?.to_string().into();
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    }

    async fn look(&self) -> Result<Value, StoreError> {
        let holders = self.holders.now();
        // Read before the stock: if no earlier order is in flight, the stock contains the effects
        // of all of them.
        let (strategy, changing) = (self.strategy(), self.strategy.is_changing());
        let products = self.store().products().await?;
        let stock = products.into_iter().map(|product| {
            let lock = holders.get(&product.sku).copied().unwrap_or_default();
            json!({
                "sku": product.sku,
                "stock": product.stock,
                "sold": product.sold,
                "initial": product.supplied,
                "oversold": (product.sold - product.supplied).max(0),
                "holder": lock.token.map(|_| &self.config.name),
                "token": lock.token.map(lock_core::FencingToken::get),
                "waiters": lock.waiters,
            })
        });
        Ok(json!({
            "shop": self.config.name,
            "pid": process::id(),
            "strategy": strategy,
            "changing": changing,
            "stock": stock.collect::<Vec<_>>(),
            "counters": self.counts(),
            "jobs": self.jobs().await,
            "leader": self.cron().is_some_and(lock_cron::Scheduler::is_leading),
        }))
    }

    /// Returns the jobs, or their latest known state.
    async fn jobs(&self) -> Value {
        let mut known = self.board.jobs.lock().await;
        if let Ok(Ok(jobs)) = timeout(JOBS_WITHIN, self.ask_for_jobs()).await {
            *known = jobs;
        }
        known.clone()
    }

    async fn ask_for_jobs(&self) -> Result<Value, CronError> {
        let Some(cron) = self.cron() else { return Ok(json!([])) };
        let mut jobs = Vec::new();
        for job in cron.list().await? {
            let last = cron.history(job.name.as_str(), 1).await?.into_iter().next();
            jobs.push(json!({
                "name": job.name.as_str(),
                "last": last.as_ref().map(|last| last.started.to_string()),
                "next": job.next_run.map(|next| next.to_string()),
                "outcome": last.map(|last| last.outcome.as_str()),
            }));
        }
        Ok(jobs.into())
    }
}
