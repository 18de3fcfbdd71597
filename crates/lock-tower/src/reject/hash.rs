//! How a key is shown to those who must not see it.

use hmac::{Hmac, KeyInit, Mac};
use lock_core::LockName;
use sha2::Sha256;
use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::OnceLock,
};

/// The first 64 bits of an HMAC-SHA-256 of a lock's name.
///
/// By default its secret is random and of this process: the hash of a name is the same as long as the process lives, and
/// another in the next. Processes with one [`key_hash_secret`](crate::LockLayer::key_hash_secret) have the same hashes.
///
/// A client sees whether two refusals were about one lock, and cannot find the name by hashing all names there may be.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// The hash of that name in this process, of layers without a shared secret. Write it into the log beside the name where refusals that clients report have
    /// to be found again.
    #[must_use]
    pub fn of(name: &LockName) -> Self {
        Self::keyed(secret(), name)
    }

    /// The hash of that name under a secret that processes share.
    #[must_use]
    pub fn with_secret(secret: impl AsRef<[u8]>, name: &LockName) -> Self {
        Self::keyed(secret.as_ref(), name)
    }

    fn keyed(secret: &[u8], name: &LockName) -> Self {
        let Ok(hmac) = Hmac::<Sha256>::new_from_slice(secret) else {
            unreachable!("HMAC takes keys of any length")
        };
        let digest = hmac.chain_update(name.as_str()).finalize().into_bytes();
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
