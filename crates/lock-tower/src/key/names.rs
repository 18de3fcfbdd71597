//! The names that a request locks: one, or a set.

use lock_core::LockName;

/// The result of a key.
#[derive(Debug, Clone)]
pub(crate) enum Names {
    One(LockName),
    /// Sorted, without duplicates.
    Set(Vec<LockName>),
}

impl Names {
    pub(super) fn set(mut names: Vec<LockName>) -> Self {
        names.sort_unstable();
        names.dedup();
        Self::Set(names)
    }

    pub(crate) fn as_slice(&self) -> &[LockName] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Set(names) => names,
        }
    }
}
