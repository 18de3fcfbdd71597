//! How a key is shown to those who must not see it.

use lock_core::LockName;
use sha2::{Digest, Sha256};
use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::OnceLock,
};

/// 64 bits of a SHA-256 over a random secret of this process and a lock's name: the same for one name as long as the
/// process lives, another in the next.
///
/// So a client sees whether two refusals were about one lock, and cannot find the name by hashing all names there may be.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// The hash of that name in this process. Write it into the log beside the name where refusals that clients report have
    /// to be found again.
    #[must_use]
    pub fn of(name: &LockName) -> Self {
        let digest = Sha256::new().chain_update(secret()).chain_update(name.as_str()).finalize();
        Self(digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte)))
    }
}

/// Drawn once. A process without a source of randomness has at least that of std's hash maps.
fn secret() -> &'static [u8; 32] {
    static SECRET: OnceLock<[u8; 32]> = OnceLock::new();
    SECRET.get_or_init(|| {
        let mut secret = [0; 32];
        if getrandom::fill(&mut secret).is_err() {
            let other = RandomState::new().build_hasher().finish();
            secret[..8].copy_from_slice(&other.to_ne_bytes());
        }
        secret
    })
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
