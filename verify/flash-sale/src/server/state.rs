//! `GET /state`: the state of a server, without the stock, which is the same for all servers.

use super::Bench;
use axum::{Json, extract::State};
use distlock::{FencingToken, cron::CronError};
use serde_json::{Value, json};
use std::{process, sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::timeout};

/// Time limit for reading the jobs. If their store does not respond, the remaining state is still shown.
const JOBS_WITHIN: Duration = Duration::from_millis(100);

/// The latest known jobs.
#[derive(Debug, Default)]
pub(super) struct Board(Mutex<Vec<Value>>);

pub(super) async fn now(State(bench): State<Arc<Bench>>) -> Json<Value> {
    let locks = bench.holders.now().into_iter().map(|(sku, lock)| {
        json!({ "sku": sku, "token": lock.token.map(FencingToken::get), "waiters": lock.waiters })
    });
    Json(json!({
        "shop": bench.name,
        "pid": process::id(),
        "strategy": bench.strategy.get(),
        "changing": bench.strategy.is_changing(),
        "locks": locks.collect::<Vec<_>>(),
        "counters": bench.counters.now(),
        "jobs": bench.jobs().await,
        "leader": bench.cron.is_leading(),
    }))
}

impl Bench {
    /// Returns the jobs, or their latest known state.
    async fn jobs(&self) -> Vec<Value> {
        let mut known = self.board.0.lock().await;
        if let Ok(Ok(jobs)) = timeout(JOBS_WITHIN, self.ask_for_jobs()).await {
            *known = jobs;
        }
        known.clone()
    }

    async fn ask_for_jobs(&self) -> Result<Vec<Value>, CronError> {
        let mut jobs = Vec::new();
        // The instances of a kind are on the console; there can be thousands.
        for job in self.cron.list().await?.into_iter().filter(|job| job.instance.is_none()) {
            let last = self.cron.history(job.name.as_str(), 1).await?.into_iter().next();
            jobs.push(json!({
                "name": job.name.as_str(),
                "last": last.as_ref().map(|last| last.started.to_string()),
                "next": job.next_run.map(|next| next.to_string()),
                "outcome": last.map(|last| last.outcome.as_str()),
            }));
        }
        Ok(jobs)
    }
}
