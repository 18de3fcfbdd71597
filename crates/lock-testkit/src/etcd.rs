//! A private etcd cluster for tests.

use crate::{ensemble::Ensemble, network::Network, process};
use std::{
    env, fmt,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// A running etcd cluster on ports of 127.0.0.1, in temporary directories.
///
/// Dropping the value stops it and removes the directory, even if a test panics. If the test process is killed, or exits
/// with the cluster in a `static`, a watchdog does both. The data of a server survives its [stop](Self::stop).
///
/// The program is `etcd` in the `PATH`, or the one named by `ETCD` (Debian: `apt-get install etcd-server`).
///
/// All methods block, including the runtime of an async test.
pub struct EtcdCluster {
    ensemble: Ensemble,
    ports: Vec<Ports>,
    /// The files of a certificate and its key, for another port of each server.
    tls: Option<(PathBuf, PathBuf)>,
}

struct Ports {
    client: u16,
    encrypted: u16,
    peer: u16,
}

impl EtcdCluster {
    /// Starts a cluster of this many servers, and waits until it has a leader.
    ///
    /// # Panics
    /// Panics if etcd is not installed or does not start. The message contains the remedy or the log.
    #[must_use]
    #[track_caller]
    pub fn start(number: usize) -> Self {
        Self::try_start(number, None, None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a cluster of this many servers on the hosts of a network, and waits until it has a leader.
    ///
    /// # Panics
    /// Panics like [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn start_in(network: &Arc<Network>, number: usize) -> Self {
        Self::try_start(number, None, Some(network)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a server that accepts TLS with this certificate and key as well, at its
    /// [encrypted address](Self::encrypted_address).
    ///
    /// # Panics
    /// Panics like [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn with_tls(certificate: &Path, key: &Path) -> Self {
        let files = (certificate.to_owned(), key.to_owned());
        Self::try_start(1, Some(files), None).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_start(
        number: usize,
        tls: Option<(PathBuf, PathBuf)>,
        network: Option<&Arc<Network>>,
    ) -> io::Result<Self> {
        Ensemble::try_start(|| {
            let ports = (0..number).map(|_| {
                let [client, encrypted, peer] = [(); 3].map(|()| process::free_port());
                Ports { client, encrypted, peer }
            });
            let ensemble = Ensemble::new("etcd", "address already in use", number, network)?;
            let cluster = Self { ensemble, ports: ports.collect(), tls: tls.clone() };
            (0..number).try_for_each(|number| cluster.begin(number))?;
            cluster.wait_until_ready(0..number)?;
            Ok(cluster)
        })
    }

    /// Returns a URL with all servers.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = (0..self.ports.len()).map(|number| self.address(number).to_string()).collect();
        format!("etcd://{}", hosts.join(","))
    }

    /// Returns the address of a server for clients.
    #[must_use]
    pub fn address(&self, number: usize) -> SocketAddr {
        (self.ensemble.host(number), self.ports[number].client).into()
    }

    /// Returns the address of a server for clients with TLS.
    #[must_use]
    pub fn encrypted_address(&self, number: usize) -> SocketAddr {
        (self.ensemble.host(number), self.ports[number].encrypted).into()
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

    /// Returns the number of the leader.
    ///
    /// # Panics
    /// Panics if there is none for a long time.
    #[must_use]
    #[track_caller]
    pub fn leader(&self) -> usize {
        self.ensemble.find("the leader", |number| {
            let leads = || {
                let status = self.post(number, "", "/v3/maintenance/status", "{}")?;
                let id = |key: &str| {
                    let (_, rest) = status.split_once(&format!("\"{key}\":\""))?;
                    rest.split('"').next().map(str::to_owned)
                };
                Some(id("member_id")? == id("leader")?)
            };
            leads() == Some(true)
        })
    }

    /// Kills a server (`SIGKILL`).
    pub fn stop(&self, number: usize) {
        self.ensemble.stop(number);
    }

    /// Stops a server if it is running, and starts it again with its data. Returns once it answers.
    ///
    /// # Panics
    /// Panics with the log if it does not start.
    #[track_caller]
    pub fn restart(&self, number: usize) {
        self.restart_all(&[number]);
    }

    /// Restarts several servers, which may need each other to answer.
    ///
    /// # Panics
    /// Panics like [`restart`](Self::restart).
    #[track_caller]
    pub fn restart_all(&self, numbers: &[usize]) {
        numbers.iter().for_each(|&number| self.stop(number));
        let started = numbers.iter().try_for_each(|&number| self.begin(number));
        let started = started.and_then(|()| self.wait_until_ready(numbers.iter().copied()));
        started.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Suspends a server (`SIGSTOP`) until it is [resumed](Self::resume).
    pub fn pause(&self, number: usize) {
        self.ensemble.pause(number);
    }

    /// Resumes a suspended server.
    pub fn resume(&self, number: usize) {
        self.ensemble.resume(number);
    }

    fn begin(&self, number: usize) -> io::Result<()> {
        let (ports, host) = (&self.ports[number], self.ensemble.host(number));
        let url = |port: u16| format!("http://{host}:{port}");
        let peers =
            self.ports.iter().enumerate().map(|(number, ports)| {
                format!("n{number}=http://{}:{}", self.ensemble.host(number), ports.peer)
            });
        let peers: Vec<_> = peers.collect();
        let mut listens = url(ports.client);
        let mut command = self.ensemble.command(number, &find()?);
        if let Some((certificate, key)) = &self.tls {
            listens += &format!(",https://{host}:{}", ports.encrypted);
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
            &url(ports.client),
            "--listen-peer-urls",
            &url(ports.peer),
            "--initial-advertise-peer-urls",
            &url(ports.peer),
            "--initial-cluster",
            &peers.join(","),
            "--log-level",
            "warn",
        ]);
        self.ensemble.begin(number, &mut command)
    }

    fn wait_until_ready(&self, mut numbers: impl Iterator<Item = usize>) -> io::Result<()> {
        let is_ready = |number| self.get(number, "/health").is_some_and(|health| health.contains("true"));
        numbers.try_for_each(|number| self.ensemble.wait(number, || is_ready(number)))
    }

    fn get(&self, number: usize, path: &str) -> Option<String> {
        self.ask(number, &format!("GET {path} HTTP/1.0\r\n\r\n"))
    }

    fn post(&self, number: usize, token: &str, path: &str, body: &str) -> Option<String> {
        let login = if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
        let head = format!("POST {path} HTTP/1.0\r\n{login}Content-Length: {}", body.len());
        self.ask(number, &format!("{head}\r\n\r\n{body}"))
    }

    fn ask(&self, number: usize, request: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address(number)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

impl fmt::Debug for EtcdCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdCluster").field("url", &self.url()).finish_non_exhaustive()
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
