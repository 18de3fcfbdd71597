//! TLS through rustls, on ring or on aws-lc-rs. Verification cannot be turned off.

use super::Tls;
use lock_core::backend::{Applied, BackendError, BackendErrorKind};
#[cfg(not(feature = "rustls-ring"))]
use rustls::crypto::aws_lc_rs as provider;
#[cfg(feature = "rustls-ring")]
use rustls::crypto::ring as provider;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use rustls_native_certs::load_native_certs;
use std::sync::Arc;

/// Converts the settings to a rustls configuration.
///
/// # Errors
/// Returns [`BackendErrorKind::Misconfigured`] if a certificate or the key is unusable, or if the
/// system trusts no authority.
pub fn rustls_config(tls: &Tls) -> Result<ClientConfig, BackendError> {
    // The provider is explicit: rustls has no default once the crates of a program enable several, and the default that
    // a program installs is meant for the program.
    let config = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused("the TLS versions cannot be used", error))?
        .with_root_certificates(roots(tls)?);
    match tls.shown() {
        None => Ok(config.with_no_client_auth()),
        Some(client) => {
            let chain = certificates(&client.certificate, "the client certificate")?;
            let key = PrivateKeyDer::from_pem_slice(&client.key)
                .map_err(|error| refused("the private key is not a valid PEM key", error))?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| refused("the client certificate and its key do not match", error))
        }
    }
}

fn roots(tls: &Tls) -> Result<RootCertStore, BackendError> {
    let mut roots = RootCertStore::empty();
    match tls.trusted() {
        Some(pem) => {
            for certificate in certificates(pem, "the CA certificate")? {
                roots
                    .add(certificate)
                    .map_err(|error| refused("the CA certificate cannot be used", error))?;
            }
        }
        // Some systems list a few unreadable certificates; the rest are enough.
        None => drop(roots.add_parsable_certificates(load_native_certs().certs)),
    }
    match roots.is_empty() {
        true => Err(misconfigured(
            "the system has no trusted certificate authorities; install certificates, or configure an authority",
        )),
        false => Ok(roots),
    }
}

fn certificates(pem: &[u8], whose: &str) -> Result<Vec<CertificateDer<'static>>, BackendError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| refused(&format!("{whose} is not valid PEM"), error))?;
    match read.is_empty() {
        true => Err(misconfigured(&format!("no certificate found in {whose}; use PEM text"))),
        false => Ok(read),
    }
}

fn refused(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> BackendError {
    let message = format!("failed to connect to redis: {what}");
    BackendError::new(BackendErrorKind::Misconfigured, Applied::No, message).with_source(error)
}

fn misconfigured(what: &str) -> BackendError {
    let message = format!("failed to connect to redis: {what}");
    BackendError::new(BackendErrorKind::Misconfigured, Applied::No, message)
}
