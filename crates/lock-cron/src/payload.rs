//! Payloads: the arguments of runs, as JSON.

use crate::{
    context::RunContext,
    error::{CronError, CronErrorKind},
};
use serde::{Serialize, de::DeserializeOwned};
use std::error::Error;

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

impl std::fmt::Display for BadPayload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
pub(crate) fn encode(payload: &impl Serialize) -> Result<String, CronError> {
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

impl RunContext {
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
