//! Counters of ongoing work, so that a shutdown does not have to scan every name repeatedly.

use crate::{
    sync::atomic::{AtomicBool, AtomicIsize, Ordering},
    wake::contained,
};
use std::sync::Arc;
use tokio::sync::{Notify, futures::Notified};

#[derive(Debug, Default)]
pub(super) struct ActivityCounter {
    /// Number of entries whose machine holds, requests or releases a lease.
    busy_entries: AtomicIsize,
    /// Number of calls whose replies have not been delivered yet, plus the number of events that are being handled.
    active: AtomicIsize,
    /// Set when the factory shuts down. A task may then wait for the counters to reach zero.
    closed: AtomicBool,
    changed: Notify,
}

/// A call or an event that is not finished.
#[derive(Debug)]
pub(super) struct ActivityGuard(Arc<ActivityCounter>);

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl ActivityCounter {
    pub(super) fn entry_is_busy(&self, busy: bool) {
        self.count(&self.busy_entries, busy);
    }

    /// Begins an activity that ends when the returned guard is dropped.
    pub(super) fn guard(self: &Arc<Self>) -> ActivityGuard {
        self.begin();
        ActivityGuard(self.clone())
    }

    /// Creates the guard for an activity that [`begin`](Self::begin) has already counted.
    pub(super) fn adopt(self: &Arc<Self>) -> ActivityGuard {
        ActivityGuard(self.clone())
    }

    /// Begins an activity that lasts until [`end`](Self::end) is called.
    pub(super) fn begin(&self) {
        self.count(&self.active, true);
    }

    pub(super) fn end(&self) {
        self.count(&self.active, false);
    }

    fn count(&self, counter: &AtomicIsize, up: bool) {
        // Sequentially consistent with `closed`: a caller counts before it checks `closed`, and a shutdown sets
        // `closed` before it reads the counters. The counters are signed, since one thread may decrement before
        // another has incremented.
        let step = if up { 1 } else { -1 };
        if counter.fetch_add(step, Ordering::SeqCst) + step == 0 && self.is_closed() {
            self.notify();
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Wakes every task that waits for a change.
    pub(super) fn notify(&self) {
        contained("a waker", || self.changed.notify_waiters());
    }

    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub(super) fn is_zero(&self) -> bool {
        let zero = |counter: &AtomicIsize| counter.load(Ordering::SeqCst) == 0;
        // The order matters. While a closed factory has no activity, no entry becomes busy. In the reverse order, an
        // entry could become busy and its event could end between the two reads.
        zero(&self.active) && zero(&self.busy_entries)
    }
}
