//! A server's report, which is its response to `GET /state`.

use super::snapshot::JobInfo;
use serde::Deserialize;

/// The state reported by a server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Report {
    pub(super) pid: u32,
    pub(super) strategy: String,
    /// `true` while orders with an earlier strategy are under way.
    pub(super) changing: bool,
    /// The locks that this server holds or waits for.
    pub(super) locks: Vec<HeldLock>,
    pub(super) counters: Counters,
    pub(super) jobs: Vec<JobInfo>,
    /// `true` while the server leads the scheduler.
    pub(super) leader: bool,
}

/// A product's lock, as known to one server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct HeldLock {
    pub(super) sku: String,
    /// The token of this server's hold, if any.
    pub(super) token: Option<u64>,
    pub(super) waiters: u64,
}

/// The counters of one process, which start at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Counters {
    pub(super) orders: u64,
    pub(super) sold_out: u64,
    pub(super) stale: u64,
    pub(super) lock_timeouts: u64,
}
