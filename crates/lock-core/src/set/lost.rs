//! The loss of a lock that belongs to a set.

use crate::{machine::LostReason, name::LockName};
use std::{error::Error, fmt};

/// The lock of a set that was lost first, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberLost {
    /// The name of the lock.
    pub name: LockName,
    /// The reason for the loss.
    pub reason: LostReason,
}

impl fmt::Display for MemberLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lock `{}`, which belongs to a set, was lost", self.name)
    }
}

impl Error for MemberLost {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.reason)
    }
}
