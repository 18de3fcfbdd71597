//! TLS: whom to trust, and which certificate to show. Verification cannot be turned off.

use fred::{
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
    rustls_native_certs::load_native_certs,
    types::config::TlsConnector,
};
use lock_core::{Applied, BackendError, BackendErrorKind, LockError};
use std::{fmt, sync::Arc};

/// How a `rediss://` connection is secured: whose certificates are trusted, and which one is shown.
///
/// The server's certificate is always verified, against its chain, its name and its dates.
#[derive(Clone)]
#[must_use]
pub struct Tls {
    authority: Option<Vec<u8>>,
    client: Option<Client>,
}

#[derive(Clone)]
struct Client {
    certificate: Vec<u8>,
    key: Vec<u8>,
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
        self.client = Some(Client { certificate: certificate.into(), key: key.into() });
        self
    }

    pub(crate) fn connector(&self) -> Result<TlsConnector, LockError> {
        // The provider is named: a process-wide default would depend on what else is linked.
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| refused("the TLS versions are not usable", error))?
            .with_root_certificates(self.roots()?);
        let config = match &self.client {
            None => config.with_no_client_auth(),
            Some(client) => {
                let chain = certificates(&client.certificate, "the client certificate")?;
                let key = PrivateKeyDer::from_pem_slice(&client.key)
                    .map_err(|error| refused("the private key is no PEM text of a key", error))?;
                config
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| refused("the client certificate and its key do not fit", error))?
            }
        };
        Ok(config.into())
    }

    fn roots(&self) -> Result<RootCertStore, LockError> {
        let mut roots = RootCertStore::empty();
        match &self.authority {
            Some(pem) => {
                for certificate in certificates(pem, "the authority")? {
                    roots.add(certificate).map_err(|error| refused("the authority is not usable", error))?;
                }
            }
            // Some systems list a certificate or two that cannot be read; the rest will do.
            None => drop(roots.add_parsable_certificates(load_native_certs().certs)),
        }
        match roots.is_empty() {
            true => {
                Err(misconfigured("the system trusts no authority: install its certificates, or give one"))
            }
            false => Ok(roots),
        }
    }
}

fn certificates(pem: &[u8], whose: &str) -> Result<Vec<CertificateDer<'static>>, LockError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| refused(&format!("{whose} is no PEM text"), error))?;
    match read.is_empty() {
        true => Err(misconfigured(&format!("{whose} has no certificate in it: give PEM text"))),
        false => Ok(read),
    }
}

fn refused(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> LockError {
    let message = format!("connect to redis: {what}");
    BackendError::new(BackendErrorKind::Misconfigured, Applied::No, message).with_source(error).into()
}

fn misconfigured(what: &str) -> LockError {
    let message = format!("connect to redis: {what}");
    BackendError::new(BackendErrorKind::Misconfigured, Applied::No, message).into()
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the key.
        let (authority, client) = (self.authority.is_some(), self.client.is_some());
        f.debug_struct("Tls").field("own_authority", &authority).field("client_certificate", &client).finish()
    }
}
