//! A private etcd cluster for tests.

use crate::cluster::{Cluster, Program};
use std::{
    env, io,
    path::{Path, PathBuf},
    process::Command,
};

/// etcd, of Debian's package `etcd-server`: the program in the `PATH`, or the one named by `ETCD`.
#[derive(Debug)]
pub enum Etcd {}

/// A running etcd cluster.
pub type EtcdCluster = Cluster<Etcd>;

impl Cluster<Etcd> {
    /// Starts a server that accepts TLS with this certificate and key as well, at its
    /// [encrypted address](Self::encrypted_address).
    ///
    /// # Panics
    /// Panics like [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn with_tls(certificate: &Path, key: &Path) -> Self {
        Self::start_with(1, &[certificate, key], None)
    }

    /// Sends a request to the JSON form of the API of the first server, such as `/v3/auth/enable`, and returns the answer.
    ///
    /// # Panics
    /// Panics if the server does not answer, or refuses it.
    #[track_caller]
    pub fn api(&self, path: &str, body: &str) -> String {
        self.api_as("", path, body)
    }

    /// Sends a request like [`api`](Self::api), with the token of a login.
    ///
    /// # Panics
    /// Panics like [`api`](Self::api).
    #[track_caller]
    pub fn api_as(&self, token: &str, path: &str, body: &str) -> String {
        let answer = self.post(0, token, path, body).expect("etcd answers");
        assert!(answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    }

    fn post(&self, number: usize, token: &str, path: &str, body: &str) -> Option<String> {
        let login = if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
        let head = format!("POST {path} HTTP/1.0\r\n{login}Content-Length: {}", body.len());
        self.exchange(number, &format!("{head}\r\n\r\n{body}"))
    }
}

impl Program for Etcd {
    const SCHEME: &'static str = "etcd";
    const TAKEN: &'static str = "address already in use";

    fn command(cluster: &Cluster<Self>, number: usize) -> io::Result<Command> {
        let url = |number, port: u16| format!("http://{}:{port}", cluster.host(number));
        let peer = |number| url(number, cluster.ports(number).peer);
        let peers: Vec<_> = (0..cluster.len()).map(|number| format!("n{number}={}", peer(number))).collect();
        let client = url(number, cluster.ports(number).client);
        let mut listens = client.clone();
        let mut command = cluster.on_host(number, &find()?);
        if let [certificate, key] = &cluster.tls[..] {
            listens += &format!(",https://{}", cluster.encrypted_address(number));
            command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
        }
        command.env("GOMAXPROCS", "2").args([
            "--name",
            &format!("n{number}"),
            "--data-dir",
            "data",
            "--listen-client-urls",
            &listens,
            "--advertise-client-urls",
            &client,
            "--listen-peer-urls",
            &peer(number),
            "--initial-advertise-peer-urls",
            &peer(number),
            "--initial-cluster",
            &peers.join(","),
            "--log-level",
            "warn",
        ]);
        Ok(command)
    }

    fn is_ready(cluster: &Cluster<Self>, number: usize) -> bool {
        let health = cluster.exchange(number, "GET /health HTTP/1.0\r\n\r\n");
        health.is_some_and(|health| health.contains("true"))
    }

    fn leads(cluster: &Cluster<Self>, number: usize) -> bool {
        let ids = || {
            let status = cluster.post(number, "", "/v3/maintenance/status", "{}")?;
            let id = |key: &str| {
                let (_, rest) = status.split_once(&format!("\"{key}\":\""))?;
                rest.split('"').next().map(str::to_owned)
            };
            Some((id("member_id")?, id("leader")?))
        };
        ids().is_some_and(|(own, leader)| own == leader)
    }
}

fn find() -> io::Result<PathBuf> {
    if let Some(program) = env::var_os("ETCD") {
        return Ok(program.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found =
        env::split_paths(&path).map(|folder| folder.join("etcd")).find(|program| Path::exists(program));
    found.ok_or_else(|| {
        let remedy =
            "etcd was not found: install it (Debian: `apt-get install etcd-server`), or name it in `ETCD`";
        io::Error::new(io::ErrorKind::NotFound, remedy)
    })
}
