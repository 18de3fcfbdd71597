//! Runs whose payloads this node could not read. They are left to other nodes.

use crate::running::RunKey;
use lock_ledger::OpenRun;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// The runs that this node has declined, and the news of those that any node has declined.
#[derive(Debug, Default)]
pub(super) struct DeclinedRuns {
    here: BTreeMap<RunKey, (Instant, String)>,
    /// The last revision at which a run was declined.
    seen: u64,
    /// The time at which this node looks again at those that it could not start.
    pub(super) look_again: Option<Instant>,
}

impl DeclinedRuns {
    /// Adds a run that this node has just declined.
    pub(super) fn insert(&mut self, key: RunKey, reason: String) {
        self.here.insert(key, (Instant::now(), reason));
    }

    /// Returns the time at which this node declined a run, and the reason.
    pub(super) fn get(&self, run: &OpenRun) -> Option<&(Instant, String)> {
        self.here.get(&RunKey { job: run.job.clone(), run: run.run })
    }

    /// Returns `true` if a run was declined since the last call.
    pub(super) fn is_news(&mut self, revision: u64) -> bool {
        std::mem::replace(&mut self.seen, revision) != revision
    }

    /// Forgets the runs that have ended.
    pub(super) fn retain(&mut self, open: &[OpenRun]) {
        self.here.retain(|key, _| open.iter().any(|run| run.job == key.job && run.run == key.run));
    }
}
