//! The validated terms of jobs, of runs and of the run loop, and the maximum length of names.

use crate::options::{Jitter, Misfire, OnOrphan, Overlap, Placement, Retries};
use lock_core::LockOptions;
use lock_ledger::PoolLimit;
use std::time::Duration;

/// The maximum length of the name of a group, a job or a pool, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 200;

/// The terms of a job.
#[derive(Debug, Clone)]
pub(crate) struct JobTerms {
    pub(crate) placement: Placement,
    pub(crate) overlap: Overlap,
    pub(crate) pool: Option<PoolLimit>,
    pub(crate) misfire: Misfire,
    /// `None` for the default, half the interval to the next scheduled time.
    pub(crate) grace: Option<Duration>,
    pub(crate) on_orphan: OnOrphan,
    pub(crate) retries: Retries,
    pub(crate) timeout: Option<Duration>,
    pub(crate) jitter: Jitter,
    pub(crate) cancel_grace: Duration,
    pub(crate) alert_after: Option<Duration>,
}

impl Default for JobTerms {
    fn default() -> Self {
        Self {
            placement: Placement::Spread,
            overlap: Overlap::Skip,
            pool: None,
            misfire: Misfire::FireOnce,
            grace: None,
            on_orphan: OnOrphan::Skip,
            retries: Retries::default(),
            timeout: None,
            jitter: Jitter::None,
            cancel_grace: Duration::from_secs(5),
            alert_after: None,
        }
    }
}

/// The terms of all runs of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunTerms {
    pub(crate) lease: Duration,
    pub(crate) history: u32,
    pub(crate) trigger_life: Duration,
    /// The maximum number of concurrent runs on this node.
    pub(crate) max_running: u32,
}

/// The terms of the run loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoopTerms {
    pub(crate) leadership: LockOptions,
    pub(crate) leadership_lease: Duration,
    pub(crate) shutdown_grace: Duration,
}
