//! A key hash, for output that must not contain the key.

use lock_core::LockName;
use siphasher::sip::SipHasher24;
use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::OnceLock,
};

/// A keyed hash of a lock's name: 64 bits of SipHash-2-4.
///
/// By default, each process uses a random secret, so hashes differ between processes. Processes
/// that share a [`key_hash_secret`](crate::LockLayer::key_hash_secret) compute the same hashes,
/// even if they run different versions of this crate. Several keys have one hash, that of their
/// sorted names joined with line feeds.
///
/// A client can tell that two rejections concern the same lock. Without the secret, it cannot find
/// the name by hashing candidates.
// SipHash is a keyed function with a short output and a fixed specification. The hasher in std can
// change with each version, and a plain digest would need a keyed construction.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Returns the hash of a name, keyed with this process's secret. Log both together, so that you
    /// can find the name when a client reports a rejection. Layers with a
    /// [`key_hash_secret`](crate::LockLayer::key_hash_secret) produce different hashes.
    #[must_use]
    pub fn of(name: &LockName) -> Self {
        Self::with_secret(process_secret(), name)
    }

    /// Returns the hash of a name, keyed with a shared secret. On the command line, OpenSSL prints
    /// the same hash in upper case:
    ///
    /// ```text
    /// printf %s "$NAME" | openssl mac -macopt size:8 -macopt "hexkey:$SECRET" SIPHASH
    /// ```
    #[must_use]
    pub fn with_secret(secret: [u8; 16], name: &LockName) -> Self {
        Self::of_names(Some(secret), std::slice::from_ref(name))
    }

    /// Returns the hash of sorted names joined with line feeds, which no name contains. Without a
    /// secret, this process's is used.
    pub(crate) fn of_names(secret: Option<[u8; 16]>, names: &[LockName]) -> Self {
        let mut hasher = SipHasher24::new_with_key(&secret.unwrap_or_else(process_secret));
        for (place, name) in names.iter().enumerate() {
            if place > 0 {
                hasher.write(b"\n");
            }
            hasher.write(name.as_str().as_bytes());
        }
        // OpenSSL's byte order.
        Self(hasher.finish().swap_bytes())
    }
}

/// Returns this process's secret. Falls back to the randomness of std's hash maps.
fn process_secret() -> [u8; 16] {
    static SECRET: OnceLock<[u8; 16]> = OnceLock::new();
    *SECRET.get_or_init(|| {
        let mut secret = [0; 16];
        if getrandom::fill(&mut secret).is_err() {
            let random = RandomState::new();
            let halves = [random.hash_one(0), random.hash_one(1)];
            secret = (u128::from(halves[0]) << 64 | u128::from(halves[1])).to_ne_bytes();
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
