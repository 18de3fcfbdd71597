//! Whether anything is left to do: counted, so that a shutdown need not look at every name again and again.

use super::{Driver, waker_set::contained};
use crate::sync::atomic::{AtomicIsize, Ordering};
use std::sync::Arc;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// Cells whose machine holds, wants or undoes something.
    busy_cells: AtomicIsize,
    /// Calls whose answers were not delivered yet, and events that are being handled.
    active: AtomicIsize,
    bell: Notify,
}

/// A call or an event that is not yet done with.
#[derive(Debug)]
pub(super) struct Active(Arc<Driver>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.count(&self.0.quiet.active, false);
    }
}

impl Driver {
    pub(super) fn cell_is_busy(&self, busy: bool) {
        self.count(&self.quiet.busy_cells, busy);
    }

    /// Something is going on until this is dropped.
    pub(super) fn active(self: &Arc<Self>) -> Active {
        self.count(&self.quiet.active, true);
        Active(self.clone())
    }

    fn count(&self, counter: &AtomicIsize, up: bool) {
        // In one order with `closed`: who enters counts and then looks, who shuts down closes and then looks.
        // Signed: of two threads, the one that counts down may come before the one that counts up.
        let step = if up { 1 } else { -1 };
        if counter.fetch_add(step, Ordering::SeqCst) + step == 0 {
            self.tell_if_quiet();
        }
    }

    pub(super) fn worker_left(&self) {
        contained(|| self.quiet.bell.notify_waiters());
    }

    /// Only a shutdown waits for it.
    pub(super) fn tell_if_quiet(&self) {
        if self.is_closed() && self.is_quiet() {
            contained(|| self.quiet.bell.notify_waiters());
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        let zero = |counter: &AtomicIsize| counter.load(Ordering::SeqCst) == 0;
        // In this order. When a closed factory has nobody active, nobody makes a cell busy any more; read the other way
        // round, a cell could become busy, and its event be over, between the two.
        zero(&self.quiet.active) && zero(&self.quiet.busy_cells) && self.inbox.is_empty()
    }

    /// Completes when nothing is left to do. Sees to it that somebody does it: the worker of an earlier shutdown
    /// may be about to give up.
    pub(super) async fn quiet(self: &Arc<Self>) {
        loop {
            let mut bell = std::pin::pin!(self.quiet.bell.notified());
            bell.as_mut().enable();
            if self.is_quiet() {
                return;
            }
            let _ = self.ensure_worker();
            bell.await;
        }
    }
}
