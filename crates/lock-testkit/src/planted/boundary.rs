//! Bugs at the boundary of a process: misinterpreted answers of the store.

use super::PlantedBug;
use lock_core::{
    backend::{Released, Renewed, Reply},
    clock::UtcTime,
};

impl PlantedBug {
    /// Returns the answer to a renewal as seen by a process with this bug.
    ///
    /// # Errors
    /// Those of the answer.
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

    /// Returns the answer to a release as seen by a process with this bug.
    #[must_use]
    pub fn released(bug: Option<Self>, answer: Released) -> Released {
        match (bug, answer) {
            (Some(Self::GoneIsReleased), Released::Gone { .. }) => Released::Released { listeners: None },
            (_, answer) => answer,
        }
    }
}
