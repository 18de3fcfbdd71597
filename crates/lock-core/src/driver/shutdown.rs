//! The end of a factory: everything is given back, within two operation timeouts.

use super::{Driver, feed::Io};
use crate::{
    machine::Event,
    name::LockName,
    sync::{atomic::Ordering, lock, timeout},
};
use std::{sync::Arc, time::Duration};

/// The longest time that a subscription may take. It has no lease of its own that would say so.
const LONGEST_WATCH: Duration = Duration::from_secs(3);

/// What [`LockFactory::shutdown`](crate::LockFactory::shutdown) could not finish.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The locks whose release the store did not confirm in time; their leases end by themselves.
    pub unconfirmed: Vec<LockName>,
}

impl ShutdownReport {
    /// Whether everything was given back.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.unconfirmed.is_empty()
    }
}

impl Driver {
    /// No acquire from now on.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// For operations that belong to no lease.
    pub(super) fn operation_timeout(&self) -> Duration {
        self.options.terms().map_or(LONGEST_WATCH, |terms| terms.operation_timeout.min(LONGEST_WATCH))
    }

    /// The longest operation timeout of what is held, tried, or being undone, and of what is under way.
    pub(super) fn longest_operation(&self) -> Duration {
        let of_cell = |cell: Arc<super::Cell>| lock(&cell.state).machine.operation_timeout();
        let of_leases = self.cells.all().into_iter().filter_map(of_cell).max();
        let of_calls = lock(&self.deadlines).longest();
        of_leases.into_iter().chain(of_calls).max().unwrap_or_else(|| self.operation_timeout())
    }

    pub(super) fn close_cells(self: &Arc<Self>) {
        for cell in self.cells.all() {
            self.feed(&cell, Event::Close, Io::Here);
        }
    }

    fn unfinished(&self) -> Vec<LockName> {
        let unfinished = |cell: &Arc<super::Cell>| !lock(&cell.state).machine.is_quiet();
        let mut names: Vec<_> =
            self.cells.all().iter().filter(|cell| unfinished(cell)).map(|cell| cell.name.clone()).collect();
        names.sort();
        names
    }

    pub(crate) async fn shut_down(self: &Arc<Self>) -> ShutdownReport {
        self.close();
        self.close_cells();
        if !self.is_quiet() && self.ensure_worker().is_ok() {
            self.inbox.ring();
            let _ = timeout(self.longest_operation() * 2, self.quiet()).await;
        }
        // Nothing else wakes a worker that has nothing to do; it goes home.
        self.inbox.ring();
        let unconfirmed = self.unfinished();
        if !unconfirmed.is_empty() {
            tracing::warn!(locks = ?unconfirmed, "shut down without confirmation: these leases end by themselves");
        }
        ShutdownReport { unconfirmed }
    }
}
