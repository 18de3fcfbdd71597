//! The report of one server: the answer to `GET /state`.

use super::snapshot::JobInfo;
use serde::Deserialize;

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Report {
    pub(super) pid: u32,
    pub(super) strategy: String,
    pub(super) stock: Vec<Stock>,
    pub(super) counters: Counters,
    pub(super) jobs: Vec<JobInfo>,
    /// `true` while it leads the scheduler.
    pub(super) leader: bool,
}

/// One product. The numbers come from the database, the lock is that of this server alone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Stock {
    pub(super) sku: String,
    pub(super) stock: i64,
    pub(super) sold: i64,
    /// Units supplied, restocked ones included.
    pub(super) initial: i64,
    /// The server's own name while it holds the lock.
    pub(super) holder: Option<String>,
    pub(super) token: Option<u64>,
    pub(super) waiters: u64,
}

impl Stock {
    /// Units that were sold and are still counted as stock: each of them is sold twice, sooner or later.
    pub(super) fn oversold(&self) -> u64 {
        u64::try_from(self.stock.max(0) + self.sold - self.initial).unwrap_or(0)
    }
}

/// The counters of one process, from 0 at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Counters {
    pub(super) orders: u64,
    pub(super) sold_out: u64,
    pub(super) stale: u64,
    pub(super) lock_timeouts: u64,
}
