//! The parameters of a lock handle.

use crate::{name::LockName, owner::Owner, terms::Terms};

/// The name of a lock, its owner, and its terms.
#[derive(Debug, Clone)]
pub(crate) struct LockSpec {
    pub(crate) name: LockName,
    /// The owner, if the caller named one.
    pub(crate) owner: Option<Owner>,
    pub(crate) terms: Terms,
}
