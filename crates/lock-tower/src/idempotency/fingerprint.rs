//! The fingerprint that distinguishes a retry from a different request.

use http::{Uri, request::Parts};
use sha2::{Digest, Sha256};
use std::fmt;

/// The SHA-256 of the method, the path with its query, and the body of a request.
///
/// Headers are excluded, since proxies and clients change them between retries.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Creates a fingerprint from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Computes the fingerprint. Methods and paths contain no line feeds, so the parts are
    /// unambiguous.
    pub(super) fn of(head: &Parts, body: &[u8]) -> Self {
        let path = whole_uri(head).path_and_query().map_or("", |path| path.as_str());
        let hash = Sha256::new().chain_update(head.method.as_str()).chain_update("\n").chain_update(path);
        Self(hash.chain_update("\n").chain_update(body).finalize().into())
    }
}

/// Returns the URI that the client requested. A nested router receives only the end of the path.
fn whole_uri(head: &Parts) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::OriginalUri(uri)) = head.extensions.get() {
        return uri;
    }
    &head.uri
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}
