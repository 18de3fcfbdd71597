//! A certificate authority and the certificates that it signs.

use lock_testkit::{RedisServer, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::PathBuf;

/// An authority created for one test.
pub(super) struct Authority {
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

/// A certificate and its key, as PEM text and in files.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) files: (PathBuf, PathBuf),
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), &pem).unwrap();
        Self { pem, issuer: Issuer::new(params, key), directory }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    pub(super) fn signs(&self, name: &str) -> Identity {
        self.signs_with(name, |_| {})
    }

    pub(super) fn signs_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        // Otherwise it has the authority's own name, and is taken for self-signed.
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        let file = |kind: &str, text: &str| {
            let path = self.directory.path().join(format!("{name}.{kind}"));
            std::fs::write(&path, text).unwrap();
            path
        };
        let files = (file("pem", &certificate), file("key", &key.serialize_pem()));
        Identity { certificate, key: key.serialize_pem(), files }
    }

    pub(super) fn server(&self, identity: &Identity, wants_clients: bool) -> RedisServer {
        RedisServer::builder().tls(self.tls(identity, wants_clients)).start()
    }

    pub(super) fn tls(&self, identity: &Identity, wants_clients: bool) -> TlsFiles {
        let (certificate, key) = identity.files.clone();
        let client_authority = wants_clients.then(|| self.file());
        TlsFiles { certificate, key, authority: self.file(), client_authority }
    }
}
