//! The state of a server: its strategy, which can change while orders are in flight, the locks that it uses, its counters,
//! and the report of all of them.

use super::Bench;
use crate::strategy::Strategy;
use axum::{Json, extract::State};
use distlock::{
    FencingToken,
    cron::CronError,
    observer::{LockEvent, LockEventKind, LockObserver},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    ops::Deref,
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::timeout;

/// Time limit for reading the jobs. If their store does not respond, the remaining state is still shown.
const JOBS_WITHIN: Duration = Duration::from_millis(100);

/// The answer to `GET /state`: the state of a server, without the stock, which is the same for all servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the server.
    pub shop: String,
    /// Process id.
    pub pid: u32,
    /// Current strategy.
    pub strategy: Strategy,
    /// `true` while orders with an earlier strategy are under way.
    pub changing: bool,
    /// The locks of products that this server holds or waits for.
    pub locks: Vec<HeldLock>,
    /// The counters since the start of the process.
    pub counters: Counts,
    /// The jobs of the scheduler.
    pub jobs: Vec<JobInfo>,
    /// `true` while the server leads the scheduler.
    pub leader: bool,
}

/// A product's lock, as known to one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLock {
    /// Product code.
    pub sku: String,
    /// Token of this server's hold, if any.
    pub token: Option<u64>,
    /// Number of this server's waiting requests.
    pub waiters: u64,
}

/// A cron job, as reported by the servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInfo {
    /// Name of the job.
    pub name: String,
    /// Start of the last run (RFC 3339).
    pub last: Option<String>,
    /// Next scheduled time (RFC 3339).
    pub next: Option<String>,
    /// Outcome of the last run.
    pub outcome: Option<String>,
}

/// The values of the counters at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Accepted orders. Replayed answers are not counted.
    pub orders: u64,
    /// Orders refused because there were too few units.
    pub sold_out: u64,
    /// Orders refused because the store had seen a newer holder.
    pub stale: u64,
    /// Orders that did not acquire a lock in time.
    pub lock_timeouts: u64,
}

/// Answers `GET /state`.
pub(super) async fn report(State(bench): State<Arc<Bench>>) -> Json<Report> {
    Json(Report {
        shop: bench.name.clone(),
        pid: process::id(),
        strategy: bench.strategy.get(),
        changing: bench.strategy.is_changing(),
        locks: bench.holders.now(),
        counters: bench.counters.now(),
        jobs: bench.jobs().await,
        leader: bench.cron.is_leading(),
    })
}

impl Bench {
    /// Returns the jobs, or their latest known state.
    async fn jobs(&self) -> Vec<JobInfo> {
        let mut known = self.latest_jobs.lock().await;
        if let Ok(Ok(jobs)) = timeout(JOBS_WITHIN, self.ask_for_jobs()).await {
            *known = jobs;
        }
        known.clone()
    }

    async fn ask_for_jobs(&self) -> Result<Vec<JobInfo>, CronError> {
        let mut jobs = Vec::new();
        // The instances of a kind are on the console; there can be thousands.
        for job in self.cron.list().await?.into_iter().filter(|job| job.instance.is_none()) {
            let last = self.cron.history(job.name.as_str(), 1).await?.into_iter().next();
            jobs.push(JobInfo {
                name: job.name.as_str().to_owned(),
                last: last.as_ref().map(|last| last.started.to_string()),
                next: job.next_run.map(|next| next.to_string()),
                outcome: last.map(|last| last.outcome.as_str().to_owned()),
            });
        }
        Ok(jobs)
    }
}

/// The strategy of one order, from its admission to its end.
#[derive(Debug, Clone)]
pub(super) struct StrategyInUse(Arc<Strategy>);

impl Deref for StrategyInUse {
    type Target = Strategy;

    fn deref(&self) -> &Strategy {
        &self.0
    }
}

/// The current strategy, and strategies still used by orders in flight.
#[derive(Debug)]
pub(super) struct CurrentStrategy(Mutex<Strategies>);

#[derive(Debug)]
struct Strategies {
    current: Arc<Strategy>,
    earlier: Vec<Weak<Strategy>>,
}

impl CurrentStrategy {
    pub(super) fn new(strategy: Strategy) -> Self {
        Self(Mutex::new(Strategies { current: Arc::new(strategy), earlier: Vec::new() }))
    }

    /// Returns the current strategy for an order. The order counts as in flight until the value is
    /// dropped.
    pub(super) fn begin(&self) -> StrategyInUse {
        StrategyInUse(self.with(|strategies| Arc::clone(&strategies.current)))
    }

    pub(super) fn get(&self) -> Strategy {
        self.with(|strategies| *strategies.current)
    }

    pub(super) fn set(&self, strategy: Strategy) {
        self.with(|strategies| {
            let earlier = std::mem::replace(&mut strategies.current, Arc::new(strategy));
            strategies.earlier.push(Arc::downgrade(&earlier));
        });
    }

    /// Returns `true` while orders from before the latest change are in flight.
    fn is_changing(&self) -> bool {
        self.with(|strategies| {
            strategies.earlier.retain(|earlier| earlier.strong_count() > 0);
            !strategies.earlier.is_empty()
        })
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut Strategies) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The locks of products that this process holds or waits for. They are learned from the events of the lock factory, without
/// requests to the store.
#[derive(Debug, Default)]
pub(super) struct Holders {
    by_sku: Mutex<HashMap<String, LocalLock>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct LocalLock {
    token: Option<FencingToken>,
    waiters: u64,
}

impl Holders {
    /// Returns all locks in use.
    fn now(&self) -> Vec<HeldLock> {
        let held = |(sku, lock): (&String, &LocalLock)| HeldLock {
            sku: sku.clone(),
            token: lock.token.map(FencingToken::get),
            waiters: lock.waiters,
        };
        self.locks().iter().map(held).collect()
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<String, LocalLock>> {
        self.by_sku.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LockObserver for Holders {
    fn on_event(&self, event: &LockEvent<'_>) {
        // Ignore locks that do not belong to a product, such as those of idempotency keys.
        let Some(sku) = event.name.as_str().strip_prefix("product:") else { return };
        let mut locks = self.locks();
        let lock = locks.entry(sku.to_owned()).or_default();
        match &event.kind {
            LockEventKind::WaitStarted => lock.waiters += 1,
            LockEventKind::WaitEnded { .. } => lock.waiters = lock.waiters.saturating_sub(1),
            LockEventKind::Granted { token, .. } => lock.token = Some(*token),
            // A hold may be reported as ended after the next one was granted.
            LockEventKind::Ended { token, .. } if lock.token == Some(*token) => lock.token = None,
            _ => {}
        }
        if *lock == LocalLock::default() {
            locks.remove(sku);
        }
    }
}

/// The counters of a server since its start.
#[derive(Debug, Default)]
pub(super) struct Counters {
    orders: AtomicU64,
    sold_out: AtomicU64,
    stale: AtomicU64,
    lock_timeouts: AtomicU64,
}

impl Counters {
    pub(super) fn sold(&self) {
        self.orders.fetch_add(1, Relaxed);
    }

    /// Counts a refusal by the last segment of its problem type.
    pub(super) fn refused(&self, word: &str) {
        match word {
            "sold-out" | "refunded" => self.sold_out.fetch_add(1, Relaxed),
            "stale-holder" => self.stale.fetch_add(1, Relaxed),
            "timeout" | "contended" => self.lock_timeouts.fetch_add(1, Relaxed),
            _ => return,
        };
    }

    /// Returns the current values.
    fn now(&self) -> Counts {
        Counts {
            orders: self.orders.load(Relaxed),
            sold_out: self.sold_out.load(Relaxed),
            stale: self.stale.load(Relaxed),
            lock_timeouts: self.lock_timeouts.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_completes_when_the_earlier_orders_end() {
        let strategy = CurrentStrategy::new(Strategy::None);
        let order = strategy.begin();
        assert!(!strategy.is_changing());
        strategy.set(Strategy::Lock);
        strategy.set(Strategy::Fenced);
        let later = strategy.begin();
        assert_eq!((*order, *later, strategy.get()), (Strategy::None, Strategy::Fenced, Strategy::Fenced));
        assert!(strategy.is_changing());
        drop(order);
        assert!(!strategy.is_changing(), "the later order must use the current strategy");
    }
}
