//! The lock that is asked for.

use crate::{name::LockName, owner::Owner, terms::Terms};

/// The name of a lock, the owner that asks for it, and the terms.
#[derive(Debug, Clone)]
pub(crate) struct LockSpec {
    pub(crate) name: LockName,
    /// The owner, if the caller named one.
    pub(crate) owner: Option<Owner>,
    pub(crate) terms: Terms,
}
