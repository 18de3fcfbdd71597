//! How a key is shown to those who must not see it.

use lock_core::LockName;
use sha2::{Digest, Sha256};
use std::fmt;

/// The first 64 bits of the SHA-256 of a lock's name: the same in all processes.
///
/// It hides a key from those who do not know it; who can list all possible keys can find the right one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// The hash of that name, for example to find a refusal again that a client reports.
    #[must_use]
    pub fn of(name: &LockName) -> Self {
        let digest = Sha256::digest(name.as_str().as_bytes());
        Self(digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte)))
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({self})")
    }
}
