//! The shutdown of a factory: it releases everything, within a time limit.

use super::{request::IoPolicy, shared::Shared};
use crate::{
    machine::Event,
    name::LockName,
    sync::{atomic::Ordering, lock, timeout},
    time::Moment,
};
use std::{pin::pin, sync::Arc, time::Duration};

/// The maximum time limit of a shutdown. Longer ones are reduced to it.
const MAX_SHUTDOWN: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The releases that [`LockFactory::shutdown`](crate::LockFactory::shutdown) could not finish.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The locks whose release the store did not confirm in time. Their leases expire by themselves.
    pub unconfirmed: Vec<LockName>,
}

impl ShutdownReport {
    /// Returns `true` if everything was released.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.unconfirmed.is_empty()
    }
}

impl Shared {
    pub(crate) async fn shut_down(self: &Arc<Self>, within: Duration) -> ShutdownReport {
        if self.is_forked() {
            // The holds are those of the parent, which would lose them.
            return ShutdownReport::default();
        }
        let within = within.min(MAX_SHUTDOWN);
        let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        self.shutdown_millis.fetch_max(millis, Ordering::Relaxed);
        self.activity.close();
        self.close_entries();
        // Without a timer, the wait cannot be limited; the workers continue in the background.
        let can_wait = self.needs_runtime().is_ok();
        if can_wait && (self.is_drained() || self.ensure_worker().is_ok()) {
            self.work.notify();
            let rest = async {
                self.drained().await;
                self.remove_card().await;
            };
            let _ = timeout(within, rest).await;
        }
        // Wakes an idle worker, which then ends. Nothing else wakes it.
        self.work.notify();
        self.sum_up_warnings(Moment::NEVER);
        let unconfirmed = self.undrained();
        if !unconfirmed.is_empty() {
            tracing::warn!(
                locks = ?unconfirmed,
                "shutdown ended before the store confirmed all releases: the remaining leases will expire"
            );
        }
        ShutdownReport { unconfirmed }
    }

    /// Completes when no work is left. Ensures that a worker runs: the worker of an earlier shutdown may be about to
    /// give up.
    async fn drained(self: &Arc<Self>) {
        loop {
            let mut changed = pin!(self.activity.changed());
            changed.as_mut().enable();
            if self.is_drained() {
                return;
            }
            let _ = self.ensure_worker();
            changed.await;
        }
    }

    fn undrained(&self) -> Vec<LockName> {
        let mut entries = self.table.all();
        entries.retain(|entry| !lock(&entry.state).machine.is_drained());
        let mut names: Vec<_> = entries.iter().map(|entry| entry.name.clone()).collect();
        names.sort();
        names
    }

    /// Ends all holds without releasing them, because no handle and no worker is left. Their leases expire by
    /// themselves.
    pub(super) fn abandon(self: &Arc<Self>) {
        for entry in self.table.all() {
            self.dispatch(&entry, Event::Shutdown, IoPolicy::Discard);
        }
        self.give_up_requests(IoPolicy::Discard);
        lock(&self.schedule).clear();
    }
}
