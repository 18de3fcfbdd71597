//! A private etcd cluster for tests.

use crate::process::{self, PATIENCE, Process, Watchdog};
use rustix::process::Signal;
use std::{
    env, fmt,
    fs::{self, File},
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PAUSE: Duration = Duration::from_millis(20);

/// The free bytes that clusters need in memory.
const ROOM: u64 = 2 << 30;

/// A running etcd cluster on ports of 127.0.0.1, in temporary directories.
///
/// Dropping the value stops it and removes the directory, even if a test panics. If the test process is killed, or exits
/// with the cluster in a `static`, a watchdog does both. The data of a server survives its [stop](Self::stop).
///
/// The program is `etcd` in the `PATH`, or the one named by `ETCD` (Debian: `apt-get install etcd-server`).
///
/// All methods block, including the runtime of an async test.
pub struct EtcdCluster {
    servers: Vec<Server>,
    /// The files of a certificate and its key, for another port of each server.
    tls: Option<(PathBuf, PathBuf)>,
}

struct Server {
    name: String,
    client: u16,
    encrypted: u16,
    peer: u16,
    process: Mutex<Option<Process>>,
    watchdog: Arc<Watchdog>,
    directory: TempDir,
}

impl EtcdCluster {
    /// Starts a cluster of this many servers, and waits until it has a leader.
    ///
    /// # Panics
    /// Panics if etcd is not installed or does not start. The message contains the remedy or the log.
    #[must_use]
    #[track_caller]
    pub fn start(number: usize) -> Self {
        Self::try_start(number, None).unwrap_or_else(|error| panic!("{error}"))
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
        Self::try_start(1, Some(files)).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_start(number: usize, tls: Option<(PathBuf, PathBuf)>) -> io::Result<Self> {
        let begin = Instant::now();
        loop {
            let servers = (0..number).map(|number| {
                let directory = tempfile::Builder::new().prefix("lock-testkit-etcd-").tempdir_in(folder())?;
                let watchdog = Arc::new(Watchdog::new(directory.path(), "KILL"));
                let [client, encrypted, peer] = [(); 3].map(|()| process::free_port());
                let name = format!("n{number}");
                Ok(Server { name, client, encrypted, peer, process: Mutex::default(), watchdog, directory })
            });
            let cluster = Self { servers: servers.collect::<io::Result<_>>()?, tls: tls.clone() };
            let started = (0..number).try_for_each(|number| cluster.begin(number));
            match started.and_then(|()| cluster.wait_until_ready(0..number)) {
                Ok(()) => return Ok(cluster),
                // Another program can take a port between its selection and its use.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && begin.elapsed() < PATIENCE => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns a URL with all servers.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.servers.iter().map(|server| format!("127.0.0.1:{}", server.client)).collect();
        format!("etcd://{}", hosts.join(","))
    }

    /// Returns the address of a server for clients.
    #[must_use]
    pub fn address(&self, number: usize) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.servers[number].client).into()
    }

    /// Returns the address of a server for clients with TLS.
    #[must_use]
    pub fn encrypted_address(&self, number: usize) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.servers[number].encrypted).into()
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
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let leads = |number: &usize| {
                let status = self.post(*number, "", "/v3/maintenance/status", "{}")?;
                let id = |key: &str| {
                    let (_, rest) = status.split_once(&format!("\"{key}\":\""))?;
                    rest.split('"').next().map(str::to_owned)
                };
                (id("member_id")? == id("leader")?).then_some(())
            };
            if let Some(leader) = (0..self.servers.len()).find(|number| leads(number).is_some()) {
                return leader;
            }
            sleep(PAUSE);
        }
        panic!("the etcd cluster has no leader");
    }

    /// Kills a server (`SIGKILL`).
    pub fn stop(&self, number: usize) {
        if let Some(mut process) = self.with_process(number, Option::take) {
            process.end(Signal::KILL);
        }
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
        self.with_process(number, |process| process.iter_mut().for_each(Process::pause));
    }

    /// Resumes a suspended server.
    pub fn resume(&self, number: usize) {
        self.with_process(number, |process| process.iter_mut().for_each(Process::resume));
    }

    fn begin(&self, number: usize) -> io::Result<()> {
        let server = &self.servers[number];
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let peers: Vec<_> = self.servers.iter().map(|s| format!("{}={}", s.name, url(s.peer))).collect();
        let mut listens = url(server.client);
        let mut command = Command::new(find()?);
        if let Some((certificate, key)) = &self.tls {
            listens += &format!(",https://127.0.0.1:{}", server.encrypted);
            command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
        }
        command.env("GOMAXPROCS", "2").current_dir(server.directory.path()).args([
            "--name",
            &server.name,
            "--data-dir",
            "data",
            "--listen-client-urls",
            &listens,
            "--advertise-client-urls",
            &url(server.client),
            "--listen-peer-urls",
            &url(server.peer),
            "--initial-advertise-peer-urls",
            &url(server.peer),
            "--initial-cluster",
            &peers.join(","),
            "--log-level",
            "warn",
        ]);
        let log = File::options().create(true).append(true).open(server.log_path())?;
        let process = Process::spawn(&mut command, log, &server.watchdog)?;
        self.with_process(number, |current| *current = Some(process));
        Ok(())
    }

    fn wait_until_ready(&self, numbers: impl Iterator<Item = usize>) -> io::Result<()> {
        let begin = Instant::now();
        for number in numbers {
            while !self.get(number, "/health").is_some_and(|health| health.contains("true")) {
                let log = fs::read_to_string(self.servers[number].log_path()).unwrap_or_default();
                if log.contains("address already in use") {
                    return Err(io::ErrorKind::AddrInUse.into());
                }
                let has_ended =
                    self.with_process(number, |process| process.as_mut().is_none_or(Process::has_ended));
                if has_ended || begin.elapsed() > PATIENCE {
                    return Err(io::Error::other(format!("etcd did not start; its log:\n{log}")));
                }
                sleep(PAUSE);
            }
        }
        Ok(())
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

    fn with_process<R>(&self, number: usize, f: impl FnOnce(&mut Option<Process>) -> R) -> R {
        f(&mut self.servers[number].process.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Server {
    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

impl fmt::Debug for EtcdCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdCluster").field("url", &self.url()).finish_non_exhaustive()
    }
}

/// Returns a folder in memory if it has room, since each change of each server waits for its disk. The data of a
/// server survives its death there as well.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    match rustix::fs::statvfs(memory) {
        Ok(system) if system.f_bavail * system.f_frsize > ROOM => memory.to_owned(),
        _ => env::temp_dir(),
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
