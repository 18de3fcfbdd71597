//! Counts what is going on, so that a shutdown need not look at every name again and again.

use super::waker_set::contained;
use crate::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::sync::Arc;
use tokio::sync::{Notify, futures::Notified};

#[derive(Debug, Default)]
pub(super) struct ActivityCounter {
    /// Entries whose machine holds, wants or undoes something.
    busy_entries: AtomicIsize,
    /// Calls whose answers were not delivered yet, and events that are being handled.
    active: AtomicIsize,
    /// The factory shuts down: somebody waits for the counters.
    closed: AtomicBool,
    changed: Notify,
}

/// A call or an event that is not yet done with.
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

    /// Something is going on until the guard is dropped.
    pub(super) fn guard(self: &Arc<Self>) -> ActivityGuard {
        self.begin();
        ActivityGuard(self.clone())
    }

    /// The same for something that was counted before.
    pub(super) fn adopt(self: &Arc<Self>) -> ActivityGuard {
        ActivityGuard(self.clone())
    }

    /// Something is going on until [`end`](Self::end) is called.
    pub(super) fn begin(&self) {
        self.count(&self.active, true);
    }

    pub(super) fn end(&self) {
        self.count(&self.active, false);
    }

    fn count(&self, counter: &AtomicIsize, up: bool) {
        // In one order with `closed`: who enters counts and then looks, who shuts down closes and then looks.
        // Signed: of two threads, the one that counts down may come before the one that counts up.
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

    /// Everybody who waits for a change looks again.
    pub(super) fn notify(&self) {
        contained("a waker", || self.changed.notify_waiters());
    }

    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub(super) fn is_zero(&self) -> bool {
        let zero = |counter: &AtomicIsize| counter.load(Ordering::SeqCst) == 0;
        // In this order. When a closed factory has nobody active, nobody makes an entry busy any more; read the other way
        // round, an entry could become busy, and its event be over, between the two.
        zero(&self.active) && zero(&self.busy_entries)
    }
}
