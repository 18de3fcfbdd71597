//! The end of a factory: everything is given back, within a bound.

use super::{Driver, feed::Io};
use crate::{
    machine::Event,
    name::LockName,
    sync::{atomic::Ordering, lock, timeout},
};
use std::{sync::Arc, time::Duration};

/// The longest time that a subscription may take. It has no lease of its own that would say so.
const LONGEST_WATCH: Duration = Duration::from_secs(3);

/// How long a shutdown waits by default for the store to confirm every release.
pub(crate) const SHUTDOWN: Duration = Duration::from_secs(10);
/// Longer bounds are as good as none.
const MAX_SHUTDOWN: Duration = Duration::from_secs(366 * 24 * 60 * 60);

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

    pub(super) fn close_cells(self: &Arc<Self>) {
        for cell in self.cells.all() {
            self.feed(&cell, Event::Shutdown, Io::Here);
        }
    }

    fn unfinished(&self) -> Vec<LockName> {
        let unfinished = |cell: &Arc<super::Cell>| !lock(&cell.state).machine.is_quiet();
        let mut names: Vec<_> =
            self.cells.all().iter().filter(|cell| unfinished(cell)).map(|cell| cell.name.clone()).collect();
        names.sort();
        names
    }

    /// How long a worker of a closed factory stays for what is not yet released.
    pub(super) fn shutdown_bound(&self) -> Duration {
        Duration::from_millis(self.shutdown_millis.load(Ordering::Relaxed)).max(SHUTDOWN)
    }

    pub(crate) async fn shut_down(self: &Arc<Self>, within: Duration) -> ShutdownReport {
        let within = within.min(MAX_SHUTDOWN);
        let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        self.shutdown_millis.fetch_max(millis, Ordering::Relaxed);
        self.close();
        self.close_cells();
        // Without a timer nothing bounds the wait; the workers go on by themselves.
        if !self.is_quiet() && self.needs_runtime().is_ok() && self.ensure_worker().is_ok() {
            self.inbox.ring();
            let _ = timeout(within, self.quiet()).await;
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
