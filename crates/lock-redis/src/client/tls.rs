//! Settings of TLS: the trusted authorities, and the certificate to show. The client acts on them.

use lock_core::backend::BackendError;
use std::fmt;

/// Settings of a `rediss://` connection: the trusted authorities, and the certificate to show.
///
/// The server's certificate is always verified, against its chain, its name and its dates.
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
    /// Trusts the authorities that the operating system trusts.
    pub fn system() -> Self {
        Self { authority: None, client: None }
    }

    /// Trusts the authorities of this PEM text, and no others.
    pub fn authority(pem: impl Into<Vec<u8>>) -> Self {
        Self { authority: Some(pem.into()), client: None }
    }

    /// Shows a client certificate (with its chain) and its private key, both as PEM text.
    pub fn client_certificate(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.client = Some(ClientCertificate { certificate: certificate.into(), key: key.into() });
        self
    }

    /// The PEM text of the authorities that are trusted; without one, those of the system are.
    #[must_use]
    pub fn trusted(&self) -> Option<&[u8]> {
        self.authority.as_deref()
    }

    /// The certificate to show to the server.
    #[must_use]
    pub fn shown(&self) -> Option<&ClientCertificate> {
        self.client.as_ref()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the key.
        let (authority, client) = (self.authority.is_some(), self.client.is_some());
        f.debug_struct("Tls").field("own_authority", &authority).field("client_certificate", &client).finish()
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// The way to secure the connections of a client, if it was built with one.
#[derive(Debug, Clone, Copy)]
pub enum TlsSupport<C> {
    /// It can. The function makes all later dials secure; it reads certificates and connects to nothing.
    BuiltIn(fn(&mut C, &Tls) -> Result<(), BackendError>),
    /// It cannot, until the feature of this name of this crate is turned on, for example
    /// "the feature `tls` of lock-fred".
    Missing(&'static str),
}
