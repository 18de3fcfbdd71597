//! The state shared by a scheduler and its run loop.

use crate::{
    error::{CronError, CronErrorKind},
    job::Job,
    kind::Kind,
    node::Node,
    terms::LoopTerms,
};
use lock_core::LockName;
use lock_ledger::PoolLimit;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, atomic::AtomicBool},
};
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) node: Arc<Node>,
    pub(crate) terms: LoopTerms,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) leading: AtomicBool,
    /// Notified when the fleet's controls should be read immediately.
    pub(crate) wake: Notify,
}

/// The jobs and kinds of this node, and the lifecycle stage, which determines whether more can be added.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) jobs: BTreeMap<LockName, Arc<Job>>,
    pub(crate) kinds: BTreeMap<String, Arc<Kind>>,
    pub(crate) lifecycle: Lifecycle,
}

impl Registry {
    /// Returns an error if the scheduler is running or has ended.
    pub(crate) fn check_new(&self) -> Result<(), CronError> {
        match self.lifecycle {
            Lifecycle::New => Ok(()),
            Lifecycle::Running => Err(CronError::new(CronErrorKind::Running)),
            Lifecycle::Ended => Err(CronError::new(CronErrorKind::Ended)),
        }
    }

    /// Returns an error if another job or kind gives the pool a different limit.
    pub(crate) fn check_pool(&self, pool: Option<&PoolLimit>) -> Result<(), CronError> {
        let Some(pool) = pool else { return Ok(()) };
        let of_jobs = self.jobs.values().map(|job| &job.terms);
        let pools = of_jobs.chain(self.kinds.values().map(|kind| &kind.terms));
        let mut limits =
            pools.filter_map(|terms| terms.pool.as_ref()).filter(|other| other.name == pool.name);
        match limits.find(|other| other.max != pool.max) {
            Some(PoolLimit { max, .. }) => {
                let about = format!(
                    "another job limits it to {max}, but this one to {}: use the same limit",
                    pool.max
                );
                Err(CronError::new(CronErrorKind::InvalidOptions).about(about).of_pool(pool.name.as_str()))
            }
            None => Ok(()),
        }
    }
}

/// The lifecycle of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Lifecycle {
    /// It accepts jobs.
    #[default]
    New,
    /// Its run loop is running.
    Running,
    /// Its run loop has ended.
    Ended,
}
