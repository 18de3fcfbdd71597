//! A server's report, which is its response to `GET /state`.

use super::snapshot::JobInfo;
use serde::Deserialize;

/// The state reported by a server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Report {
    pub(super) pid: u32,
    pub(super) strategy: String,
    /// `true` while orders with an earlier strategy are in flight.
    pub(super) changing: bool,
    pub(super) stock: Vec<Stock>,
    pub(super) counters: Counters,
    pub(super) jobs: Vec<JobInfo>,
    /// `true` while the server leads the scheduler.
    pub(super) leader: bool,
}

/// A product. The counts come from the database; the lock data covers only this server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Stock {
    pub(super) sku: String,
    pub(super) stock: i64,
    pub(super) sold: i64,
    /// Units supplied, including restocks.
    pub(super) initial: i64,
    /// Name of this server while it holds the lock.
    pub(super) holder: Option<String>,
    pub(super) token: Option<u64>,
    pub(super) waiters: u64,
}

impl Stock {
    /// Returns the number of units that were sold but are still counted as stock. Each will
    /// eventually be sold twice.
    pub(super) fn oversold(&self) -> u64 {
        u64::try_from(self.stock.max(0) + self.sold - self.initial).unwrap_or(0)
    }
}

/// The counters of one process, which start at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Counters {
    pub(super) orders: u64,
    pub(super) sold_out: u64,
    pub(super) stale: u64,
    pub(super) lock_timeouts: u64,
}
