//! Bugs at the process boundary: misinterpreted store replies.

use super::PlantedBug;
use lock_core::{
    backend::{Released, Renewed, Reply},
    clock::UtcTime,
};

impl PlantedBug {
    /// Returns the reply to a renewal as a process with this bug interprets it.
    ///
    /// # Errors
    /// Returns the error of the reply, if any.
    pub fn renewed<E>(
        bug: Option<Self>,
        now: UtcTime,
        answer: Result<Reply<Renewed>, E>,
    ) -> Result<Reply<Renewed>, E> {
        match (bug, answer) {
            (Some(Self::LostRenewalSucceeds), Err(_)) => Ok(Reply::new(now, Renewed::Renewed)),
            (Some(Self::RenewalErrorIsLoss), Err(_)) => Ok(Reply::new(now, Renewed::Gone)),
            (_, answer) => answer,
        }
    }

    /// Returns the reply to a release as a process with this bug interprets it.
    #[must_use]
    pub fn released(bug: Option<Self>, answer: Released) -> Released {
        match (bug, answer) {
            (Some(Self::GoneIsReleased), Released::Gone { .. }) => Released::Released { listeners: None },
            (_, answer) => answer,
        }
    }
}
