//! The reason why locks cannot form a set, and the loss of a lock that belongs to one.

use crate::{machine::LostReason, name::LockName};
use std::{error::Error, fmt};

/// The reason why locks cannot form a set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// There are no names.
    Empty,
    /// There are more distinct names than [`LockSet::MAX_MEMBERS`](super::LockSet::MAX_MEMBERS).
    TooMany {
        /// The first name beyond the limit.
        name: LockName,
        /// The maximum number of names.
        most: usize,
    },
    /// A lock's options differ from those of the first.
    UnequalOptions {
        /// The lock.
        name: LockName,
    },
    /// A lock's factory or owner differs from that of the first.
    UnequalOwners {
        /// The lock.
        name: LockName,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the set has no names: add at least one"),
            Self::TooMany { name, most } => {
                write!(
                    f,
                    "`{name}` exceeds the maximum size of a set: use at most {most} names, or one lock instead of several"
                )
            }
            Self::UnequalOptions { name } => {
                write!(f, "`{name}` has different options from the first lock: use `LockSet::with_options`")
            }
            Self::UnequalOwners { name } => {
                write!(
                    f,
                    "`{name}` belongs to a different factory or owner than the first lock: use locks of one factory, \
                     and set the owner with `LockSet::with_owner`"
                )
            }
        }
    }
}

impl Error for SetError {}

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
