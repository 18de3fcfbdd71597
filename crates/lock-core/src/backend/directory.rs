//! Stores that can report which process holds a lock, and which locks are held.

use super::BackendError;
use crate::{
    ids::ProcessId,
    inspect::{ListLimits, Listing, ProcessCard},
};
use async_trait::async_trait;
use std::{fmt::Debug, time::Duration};

/// A store's process cards and its list of held locks. Stores without them do not implement this trait.
///
/// These operations do not affect locks, and an account without permission for them can still use locks.
///
/// Futures of this trait may be dropped at any await; a write or a removal may or may not have happened.
#[async_trait]
pub trait Directory: Debug + Send + Sync + 'static {
    /// Stores the card of a process for the duration `ttl`, replacing any earlier one.
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError>;

    /// Removes the card of a process, if there is one.
    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError>;

    /// Reads the card of a process. Returns `None` if there is none, or if the stored data is not a card or is longer
    /// than a card can be. The amount of data read is bounded.
    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError>;

    /// Returns the held locks whose names begin with `prefix`, without [reserved](crate::LockName::RESERVED_PREFIXES) names.
    /// It stops at the limits and reports that the list is truncated.
    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError>;
}
