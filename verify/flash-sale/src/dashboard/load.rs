//! The page's load generator. It places orders for single units of the hot products at a fixed rate.

use super::snapshot::LoadInfo;
use crate::load::{self, Extent, LoadPlan, OrderMix, Profile};
use std::{net::SocketAddr, time::Duration};
use tokio::{task::JoinHandle, time::Instant};

/// Length of one part of the load. The outcomes of a part are discarded at its end, so they do not
/// accumulate.
const PART: Duration = Duration::from_secs(30);
/// Time limit for a response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The page's load generator. Dropping it stops the load.
#[derive(Debug)]
pub(super) struct PageLoad {
    target: SocketAddr,
    per_second: u32,
    skus: Vec<String>,
    /// Prefix for all idempotency keys.
    keys: String,
    started: u64,
    task: Option<JoinHandle<()>>,
}

impl PageLoad {
    pub(super) fn new(target: SocketAddr, per_second: u32, skus: Vec<String>, keys: String) -> Self {
        Self { target, per_second, skus, keys, started: 0, task: None }
    }

    /// Starts the load if it is stopped.
    pub(super) fn start(&mut self) {
        if self.task.is_some() {
            return;
        }
        self.started += 1;
        let keys = format!("{}-{}", self.keys, self.started);
        let (target, per_second, skus) = (self.target, self.per_second, self.skus.clone());
        self.task = Some(tokio::spawn(async move {
            for part in 0.. {
                let mix = OrderMix {
                    skus: skus.clone(),
                    max_quantity: 1,
                    keys: format!("{keys}-{part}"),
                    seed: part,
                };
                let plan = LoadPlan {
                    target,
                    profile: Profile::Open { rate: per_second.into() },
                    extent: Extent::Time(PART),
                    mix,
                    timeout: TIMEOUT,
                    aborts: None,
                    journal: None,
                    zero: Instant::now(),
                };
                // Only writing a journal can fail, and this load has no journal.
                let _ = load::run(plan).await;
            }
        }));
    }

    /// Stops the load and abandons the orders in flight.
    pub(super) fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    pub(super) fn info(&self) -> LoadInfo {
        LoadInfo { on: self.task.is_some(), per_second: self.per_second }
    }
}

impl Drop for PageLoad {
    fn drop(&mut self) {
        self.stop();
    }
}
