//! The end of a factory: everything is given back, within two operation timeouts.

use super::{Driver, feed::Io};
use crate::{
    machine::Event,
    name::LockName,
    sync::{atomic::Ordering, lock, timeout},
};
use std::{sync::Arc, time::Duration};

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

    pub(super) fn note_operation_timeout(&self, timeout: Duration) {
        let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        self.slowest_operation.fetch_max(micros, Ordering::AcqRel);
    }

    /// For operations that belong to no lease, and for the bound of a shutdown.
    pub(super) fn operation_timeout(&self) -> Duration {
        match self.slowest_operation.load(Ordering::Acquire) {
            0 => self.options.terms().map_or(Duration::from_secs(3), |terms| terms.operation_timeout),
            micros => Duration::from_micros(micros),
        }
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
            let _ = timeout(self.operation_timeout() * 2, self.quiet()).await;
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
