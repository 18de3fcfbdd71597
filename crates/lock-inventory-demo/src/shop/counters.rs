//! A shop's counters since it was opened.

use crate::domain::Outcome;
use lock_tower::{
    RejectReason,
    observer::{LayerEvent, LayerObserver},
};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters of a shop.
#[derive(Debug, Default)]
pub struct Counters {
    orders: AtomicU64,
    sold_out: AtomicU64,
    stale: AtomicU64,
    lock_timeouts: AtomicU64,
    lost: AtomicU64,
}

/// The values of the counters at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Accepted orders. Repetitions are not counted.
    pub orders: u64,
    /// Orders refused because there were too few units.
    pub sold_out: u64,
    /// Orders refused because the store had seen a newer holder.
    pub stale: u64,
    /// Requests that did not acquire their lock in time.
    pub lock_timeouts: u64,
    /// Requests that lost their lock before they completed.
    pub lost: u64,
}

impl Counters {
    /// Counts an outcome.
    pub(crate) fn count(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Accepted(_) => self.orders.fetch_add(1, Relaxed),
            Outcome::SoldOut => self.sold_out.fetch_add(1, Relaxed),
            Outcome::Stale(_) => self.stale.fetch_add(1, Relaxed),
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
            lost: self.lost.load(Relaxed),
        }
    }
}

impl LayerObserver for Counters {
    fn on_event(&self, event: &LayerEvent<'_>) {
        match event {
            LayerEvent::NotAcquired { reason: RejectReason::Timeout | RejectReason::Contended, .. } => {
                self.lock_timeouts.fetch_add(1, Relaxed);
            }
            LayerEvent::Lost { .. } => {
                self.lost.fetch_add(1, Relaxed);
            }
            _ => {}
        }
    }
}
