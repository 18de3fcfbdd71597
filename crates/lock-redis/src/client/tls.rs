//! TLS settings: the trusted authorities and the client certificate. They are applied by the client
//! library.

use lock_core::backend::BackendError;
use std::fmt;

/// TLS settings for a `rediss://` connection: the trusted authorities and the client certificate.
///
/// The server's certificate is always verified: its chain, its name and its dates.
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub struct Tls {
    authority: Option<Vec<u8>>,
    client: Option<ClientCertificate>,
}

/// A certificate with its chain, and its private key, both as PEM text.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate and its chain.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

impl Tls {
    /// Trusts the authorities of the operating system.
    pub fn system() -> Self {
        Self { authority: None, client: None }
    }

    /// Trusts only the authorities in this PEM text.
    pub fn authority(pem: impl Into<Vec<u8>>) -> Self {
        Self { authority: Some(pem.into()), client: None }
    }

    /// Presents a client certificate (with its chain) and its private key, both as PEM text.
    pub fn client_certificate(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.client = Some(ClientCertificate { certificate: certificate.into(), key: key.into() });
        self
    }

    /// Returns the PEM text of the trusted authorities. `None` means the system's authorities.
    #[must_use]
    pub fn trusted(&self) -> Option<&[u8]> {
        self.authority.as_deref()
    }

    /// Returns the client certificate.
    #[must_use]
    pub fn shown(&self) -> Option<&ClientCertificate> {
        self.client.as_ref()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is never printed.
        let (authority, client) = (self.authority.is_some(), self.client.is_some());
        f.debug_struct("Tls").field("own_authority", &authority).field("client_certificate", &client).finish()
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// The TLS support of a client.
#[derive(Debug, Clone, Copy)]
pub enum TlsSupport<C> {
    /// TLS is available. The function secures all later dials. It reads certificates and opens no
    /// connection.
    BuiltIn(fn(&mut C, &Tls) -> Result<(), BackendError>),
    /// TLS is missing. The text names the feature that adds it, for example "the feature `tls-ring` of lock-fred".
    Missing(&'static str),
}
