//! The value that all public handles of a factory share, and its shutdown, which releases everything within a time
//! limit.

use super::{
    keeper::{abandon, close_entries, ensure_runs},
    shared::Shared,
};
use crate::{
    name::LockName,
    sync::{atomic::Ordering, lock, timeout},
    time::Moment,
};
use std::{ops::Deref, pin::pin, sync::Arc, time::Duration};

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

/// Shared by factories, locks, futures and guards, but not by entries and the keeper's task, which ends after the last
/// handle is dropped.
#[derive(Debug)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared })
    }

    pub(crate) async fn shut_down(&self, within: Duration) -> ShutdownReport {
        if self.is_forked() {
            // The holds are those of the parent, which would lose them.
            return ShutdownReport::default();
        }
        let within = within.min(MAX_SHUTDOWN);
        let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        self.shutdown_millis.fetch_max(millis, Ordering::Relaxed);
        self.activity.close();
        close_entries(&self.shared);
        self.agenda.wake();
        if self.is_drained() || ensure_runs(&self.shared).is_ok() {
            let rest = async {
                self.drained().await;
                if let Some(card) = &self.own_card {
                    card.remove().await;
                }
            };
            // Without any runtime, it cannot wait.
            let _ = self.in_runtime(async { timeout(within, rest).await }).await;
        }
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

    /// Completes when no work is left. Ensures that the task runs: that of an earlier shutdown may be about to
    /// give up.
    async fn drained(&self) {
        loop {
            let mut changed = pin!(self.activity.changed());
            changed.as_mut().enable();
            if self.is_drained() {
                return;
            }
            let _ = ensure_runs(&self.shared);
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
}

impl Deref for Handle {
    type Target = Arc<Shared>;
    fn deref(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.activity.close();
        if self.shared.home.is_running() {
            // The task ends once the guards that were dropped last are released, or after the time limit for a
            // shutdown.
            self.shared.agenda.wake();
        } else {
            abandon(&self.shared);
        }
    }
}
