//! The context of a run, for its body.

use crate::hold::RunHold;
use lock_core::{FencingToken, LockName, LostReason, clock::UtcTime};
use lock_ledger::{CatchUp, RunId};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::sync::watch;

/// The context that is passed to the body of a run. Clones refer to the same run.
///
/// # Guarantees
/// A run is *started* once. Its effects happen only once if the resource checks
/// [`fencing_token`](Self::fencing_token) on reads and writes, or the run's identity,
/// [`id`](Self::id).
#[derive(Debug, Clone)]
pub struct RunContext {
    pub(crate) job: LockName,
    pub(crate) run: RunId,
    pub(crate) started: UtcTime,
    pub(crate) attempt: u32,
    pub(crate) token: FencingToken,
    pub(crate) catch_up: CatchUp,
    pub(crate) hold: RunHold,
    /// The payload of the trigger or of the instance, as JSON.
    pub(crate) payload: Option<Arc<str>>,
    pub(crate) cancel: watch::Receiver<bool>,
}

impl RunContext {
    /// Returns the name of the job.
    #[must_use]
    pub fn job(&self) -> &LockName {
        &self.job
    }

    /// Returns the identity of the run, which all its attempts share. Store it with the effects of
    /// the run, so a second attempt can find it.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.run
    }

    /// Returns the run's scheduled time. It is the *nominal* time, even if the run is late. For a
    /// triggered run, this is the time of the claim.
    #[must_use]
    pub fn scheduled_at(&self) -> UtcTime {
        self.run.instant().unwrap_or(self.started)
    }

    /// Returns the time of the claim, by the server's clock.
    #[must_use]
    pub fn started_at(&self) -> UtcTime {
        self.started
    }

    /// Returns the number of the attempt, starting at 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the fencing token, which is greater than that of every earlier run and attempt of the job.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Returns `true` if this is a catch-up run.
    #[must_use]
    pub fn is_catch_up(&self) -> bool {
        self.catch_up == CatchUp::Yes
    }

    /// Returns `true` if the run was [triggered](crate::Scheduler::trigger).
    #[must_use]
    pub fn is_triggered(&self) -> bool {
        matches!(self.run, RunId::Triggered(_))
    }

    /// Returns `true` if the run belongs to a [backfill](crate::Scheduler::backfill).
    #[must_use]
    pub fn is_backfill(&self) -> bool {
        self.run.backfill().is_some()
    }

    /// Returns `true` if this node still holds the run. Checks the clock and does no IO, so the
    /// first call after a process pause is already accurate.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// Returns the time for which this node holds the run without another renewal. Zero if the run
    /// is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Completes when the run is lost. From then on, another node may run it.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Dropping the future loses nothing.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        let hold = self.hold.clone();
        async move { hold.lost().await }
    }

    /// Completes when the body is told to stop: its timeout has passed, the scheduler is shutting
    /// down, another run replaces this one, or the run was [cancelled](crate::Scheduler::cancel) or
    /// lost. A body that continues is dropped at an await point once its
    /// [grace](crate::JobBuilder::cancel_grace) has passed.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Dropping the future loses nothing.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut cancel = self.cancel.clone();
        async move {
            // The sender is dropped when the run has ended; by then the body is gone as well.
            if cancel.wait_for(|cancelled| *cancelled).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns `true` if the body was told to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.cancel.borrow()
    }
}
