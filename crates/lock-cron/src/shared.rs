//! The state shared by a scheduler and its run loop: this process as a member of its group, its jobs, and its
//! lifecycle.

use crate::{
    error::{CronError, CronErrorKind},
    job::{Job, Kind},
    ledger_client::LedgerClient,
    observer::{CronEvent, Observers},
    plan::ClaimTerms,
    running::RunningRuns,
};
use lock_core::{__private::lock, LockFactory, LockName, LockOptions};
use lock_ledger::{ClaimId, PoolLimit};
use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};
use uuid::Uuid;

/// The state of a scheduler.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) node: Arc<Node>,
    pub(crate) terms: LoopTerms,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) leading: AtomicBool,
    /// Notified when the fleet's controls should be read immediately.
    pub(crate) wake: Notify,
}

impl Shared {
    /// Adds a job in code.
    pub(crate) fn insert(&self, job: Job) -> Result<(), CronError> {
        // Checked and inserted under one lock, because `run_until` copies the jobs when it starts.
        let mut registry = lock(&self.registry);
        registry.check_new()?;
        if registry.jobs.contains_key(&job.name) {
            return Err(CronError::new(CronErrorKind::DuplicateJob));
        }
        registry.check_pool(job.terms.pool.as_ref())?;
        registry.jobs.insert(job.name.clone(), Arc::new(job));
        Ok(())
    }

    /// Adds a kind.
    pub(crate) fn insert_kind(&self, name: LockName, kind: Kind) -> Result<(), CronError> {
        let mut registry = lock(&self.registry);
        registry.check_new()?;
        if registry.kinds.contains_key(name.as_str()) {
            return Err(CronError::new(CronErrorKind::DuplicateJob));
        }
        registry.check_pool(kind.terms.pool.as_ref())?;
        registry.kinds.insert(name.as_str().to_owned(), Arc::new(kind));
        Ok(())
    }
}

/// The terms of the run loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoopTerms {
    pub(crate) leadership: LockOptions,
    pub(crate) leadership_lease: Duration,
    pub(crate) shutdown_grace: Duration,
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
    fn check_pool(&self, pool: Option<&PoolLimit>) -> Result<(), CronError> {
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

/// This process as a member of its group.
#[derive(Debug)]
pub(crate) struct Node {
    /// A random id that identifies this node in the group.
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) locks: LockFactory,
    pub(crate) ledger: LedgerClient,
    pub(crate) terms: RunTerms,
    pub(crate) observers: Observers,
    pub(crate) running: RunningRuns,
    pub(crate) shutdown: ShutdownProgress,
}

impl Node {
    /// Returns the parts of a claim that are the same for all runs of this node.
    pub(crate) fn claim_terms(&self) -> ClaimTerms {
        ClaimTerms {
            group: self.ledger.group().clone(),
            node: self.name.clone(),
            lease: self.terms.lease,
            history: self.terms.history,
            draw: ClaimId::random,
        }
    }

    /// Completes after this time, or when a shutdown abandons the pending claims.
    pub(crate) async fn gives_up(&self, after: Duration) {
        tokio::select! {
            () = sleep(after) => {}
            () = self.shutdown.reached(ShutdownStage::GivingUp) => {}
        }
    }

    /// Reports a failed request to the store.
    pub(crate) fn store_failed(&self, error: &dyn Error) {
        tracing::debug!(cron.group = self.observers.group(), %error, "request to the store failed");
        self.observers.notify(|group| CronEvent::StoreFailed { group });
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

/// The stage of a shutdown, for claims and for runs whose body has not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum ShutdownStage {
    #[default]
    None,
    /// Runs whose bodies have not started are requeued.
    Draining,
    /// Pending claims are abandoned. Ends are recorded only for a few more seconds.
    GivingUp,
}

/// The progress of a shutdown.
#[derive(Debug, Default)]
pub(crate) struct ShutdownProgress(watch::Sender<ShutdownStage>);

impl ShutdownProgress {
    /// Advances to this stage, and never goes back.
    pub(crate) fn advance(&self, to: ShutdownStage) {
        self.0.send_if_modified(|stage| std::mem::replace(stage, to.max(*stage)) < to);
    }

    /// Completes when the shutdown has reached this stage.
    pub(crate) async fn reached(&self, stage: ShutdownStage) {
        let mut now = self.0.subscribe();
        now.wait_for(|now| *now >= stage).await.expect("the sender lives as long as `self`");
    }
}
