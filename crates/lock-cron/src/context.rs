//! The context of a run, for its body, and the payload, the argument of a run as JSON.

use crate::{
    error::{CronError, CronErrorKind},
    running::RunHold,
};
use lock_core::{FencingToken, LockName, LostReason, clock::UtcTime};
use lock_ledger::{CatchUp, RunId, StartedRun};
use serde::{Serialize, de::DeserializeOwned};
use std::{error::Error, fmt, future::Future, sync::Arc, time::Duration};
use tokio::sync::watch;

/// The context that is passed to the body of a run. Clones refer to the same run.
///
/// # Guarantees
/// A run is *started* once. Its effects happen only once if the resource checks
/// [`fencing_token`](Self::fencing_token) on reads and writes, or the run's identity,
/// [`id`](Self::id).
#[derive(Debug, Clone)]
pub struct RunContext {
    pub(crate) attempt_of: StartedRun,
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
        &self.attempt_of.job().name
    }

    /// Returns the identity of the run, which all its attempts share. Store it with the effects of
    /// the run, so a second attempt can find it.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.attempt_of.run()
    }

    /// Returns the run's scheduled time. It is the *nominal* time, even if the run is late. For a
    /// triggered run, this is the time of the claim.
    #[must_use]
    pub fn scheduled_at(&self) -> UtcTime {
        self.id().instant().unwrap_or(self.started)
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
        matches!(self.id(), RunId::Triggered(_))
    }

    /// Returns `true` if the run belongs to a [backfill](crate::Scheduler::backfill).
    #[must_use]
    pub fn is_backfill(&self) -> bool {
        self.id().backfill().is_some()
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

    /// Returns the run's payload. This is the payload of the
    /// [trigger](crate::Scheduler::trigger_with) if there is one, and otherwise that of the
    /// [instance](crate::Scheduler::add). Without either, the payload is `null`, which deserializes
    /// to `()` or `None`.
    ///
    /// # Errors
    /// Returns [`BadPayload`]. A run whose body returns this error is left to nodes that can read the
    /// payload, and otherwise fails without a retry.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, BadPayload> {
        serde_json::from_str(self.payload.as_deref().unwrap_or("null")).map_err(BadPayload)
    }
}

/// For `distlock::sql::finish_in`, which records the success of a run in a transaction of its body.
impl AsRef<StartedRun> for RunContext {
    fn as_ref(&self) -> &StartedRun {
        &self.attempt_of
    }
}

/// The maximum length of a payload, in bytes of JSON.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;

/// The error returned if a run's payload does not match the requested type. Change the type, or
/// trigger the run or add the instance again with a matching payload.
///
/// A run whose body returns this error has not begun: during a deployment, a node with another version of the program
/// may read the payload, and starts it within about two seconds. If none does within about 5 s, or after 16 tries, the
/// run fails without a retry.
#[derive(Debug)]
pub struct BadPayload(serde_json::Error);

impl fmt::Display for BadPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the payload does not match the requested type: change the type, or trigger the run or add the instance \
             again with a payload that matches",
        )
    }
}

impl Error for BadPayload {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// Returns `true` if an error is a [`BadPayload`] or was caused by one.
pub(crate) fn is_bad_payload(error: &(dyn Error + 'static), max_causes: usize) -> bool {
    let mut causes = std::iter::successors(Some(error), |&cause| cause.source()).take(max_causes);
    causes.any(|cause| cause.is::<BadPayload>())
}

/// Encodes a payload.
pub(crate) fn encode_payload(payload: &impl Serialize) -> Result<String, CronError> {
    let text = serde_json::to_string(payload)
        .map_err(|error| CronError::new(CronErrorKind::InvalidPayload).about(error))?;
    if text.len() > MAX_PAYLOAD_BYTES {
        let about = format!(
            "it is {} bytes long as JSON: use at most {MAX_PAYLOAD_BYTES}, and store the rest elsewhere",
            text.len()
        );
        return Err(CronError::new(CronErrorKind::InvalidPayload).about(about));
    }
    Ok(text)
}
