//! The counters of a server since its start.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters of a server.
#[derive(Debug, Default)]
pub struct Counters {
    orders: AtomicU64,
    sold_out: AtomicU64,
    stale: AtomicU64,
    lock_timeouts: AtomicU64,
}

/// The values of the counters at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
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
    #[must_use]
    pub fn now(&self) -> Counts {
        Counts {
            orders: self.orders.load(Relaxed),
            sold_out: self.sold_out.load(Relaxed),
            stale: self.stale.load(Relaxed),
            lock_timeouts: self.lock_timeouts.load(Relaxed),
        }
    }
}
