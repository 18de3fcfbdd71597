//! The parts of a scheduler that every task needs.

use crate::{
    ledger_client::LedgerClient,
    observer::{CronEvent, Observers},
    plan::ClaimTerms,
    running::RunningRuns,
    terms::RunTerms,
};
use lock_core::LockFactory;
use lock_ledger::ClaimId;
use std::error::Error;
use tokio::sync::watch;
use uuid::Uuid;

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

    /// Reports a failed request to the store.
    pub(crate) fn store_failed(&self, error: &dyn Error) {
        tracing::debug!(cron.group = self.observers.group(), %error, "request to the store failed");
        self.observers.notify(|group| CronEvent::StoreFailed { group });
    }
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
