//! The parameters of a lock handle.

use crate::{ids::ProcessId, name::LockName, owner::Owner, terms::Terms};

/// The name of a lock, its owner, and its terms.
#[derive(Debug, Clone)]
pub(crate) struct LockSpec {
    pub(crate) name: LockName,
    /// The owner, if the caller named one.
    pub(crate) owner: Option<Owner>,
    pub(crate) terms: Terms,
}

impl LockSpec {
    /// Returns the owner that the caller named, or the ambient one. Read at the first poll, so that
    /// `scope(lock.acquire())` works like `scope(async { lock.acquire().await })`.
    pub(crate) fn given_owner(&self, process: ProcessId) -> Option<Owner> {
        self.owner.or_else(|| Owner::ambient(process))
    }
}
