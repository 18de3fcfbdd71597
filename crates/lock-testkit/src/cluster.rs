//! Servers that form a cluster, for tests.

use crate::{
    network::Network,
    process::{self, PATIENCE, Process, Watchdog},
};
use rustix::process::Signal;
use std::{
    env, fmt,
    fs::{self, File},
    io::{self, Read, Write},
    marker::PhantomData,
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

/// A program whose servers form a [`Cluster`].
pub trait Program: Sized + Send + Sync + 'static {
    /// The scheme of its URLs.
    const SCHEME: &'static str;
    /// A part of the log of a server whose port is taken.
    const TAKEN: &'static str;

    /// Returns the command of a server, which runs in the folder of that server, and writes its settings.
    ///
    /// # Errors
    /// If the program is not installed, with the remedy.
    fn command(cluster: &Cluster<Self>, number: usize) -> io::Result<Command>;

    /// Returns `true` if a server answers as a part of the cluster.
    fn is_ready(cluster: &Cluster<Self>, number: usize) -> bool;

    /// Returns `true` if a server is the leader.
    fn leads(cluster: &Cluster<Self>, number: usize) -> bool;
}

/// Running servers on ports of 127.0.0.1, or on the hosts of a network, in temporary directories.
///
/// Dropping the value stops it and removes the directories, even if a test panics. If the test process is killed, or exits with
/// the cluster in a `static`, a watchdog does both. The data of a server survives its [stop](Self::stop).
///
/// All methods block, including the runtime of an async test.
pub struct Cluster<P> {
    servers: Vec<Server>,
    network: Option<Arc<Network>>,
    /// The files for TLS, if there is any.
    pub(crate) tls: Vec<PathBuf>,
    program: PhantomData<P>,
}

struct Server {
    ports: Ports,
    process: Mutex<Option<Process>>,
    watchdog: Arc<Watchdog>,
    directory: TempDir,
}

#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) client: u16,
    pub(crate) encrypted: u16,
    pub(crate) peer: u16,
    pub(crate) election: u16,
}

impl<P: Program> Cluster<P> {
    /// Starts a cluster of this many servers, and waits until it has a leader.
    ///
    /// # Panics
    /// Panics if the program is not installed or does not start. The message contains the remedy or the log.
    #[must_use]
    #[track_caller]
    pub fn start(number: usize) -> Self {
        Self::start_with(number, &[], None)
    }

    /// Starts a cluster of this many servers on the hosts of a network, and waits until it has a leader.
    ///
    /// # Panics
    /// Panics like [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn start_in(network: &Arc<Network>, number: usize) -> Self {
        Self::start_with(number, &[], Some(network))
    }

    #[track_caller]
    pub(crate) fn start_with(number: usize, tls: &[&Path], network: Option<&Arc<Network>>) -> Self {
        let begun = Instant::now();
        loop {
            match Self::try_start(number, tls, network) {
                Ok(cluster) => return cluster,
                // Another program can take a port between its selection and its use.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && begun.elapsed() < PATIENCE => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn try_start(number: usize, tls: &[&Path], network: Option<&Arc<Network>>) -> io::Result<Self> {
        let servers = (0..number).map(|_| {
            let prefix = format!("lock-testkit-{}-", P::SCHEME);
            let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(folder())?;
            let watchdog = Arc::new(Watchdog::new(directory.path(), "KILL"));
            let [client, encrypted, peer, election] = [(); 4].map(|()| process::free_port());
            let ports = Ports { client, encrypted, peer, election };
            Ok(Server { ports, process: Mutex::default(), watchdog, directory })
        });
        let cluster = Self {
            servers: servers.collect::<io::Result<_>>()?,
            network: network.cloned(),
            tls: tls.iter().map(|file| (*file).to_owned()).collect(),
            program: PhantomData,
        };
        cluster.begin(&Vec::from_iter(0..number))?;
        Ok(cluster)
    }

    /// Returns a URL with all servers.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = (0..self.servers.len()).map(|number| self.address(number).to_string()).collect();
        format!("{}://{}", P::SCHEME, hosts.join(","))
    }

    /// Returns the address of a server for clients.
    #[must_use]
    pub fn address(&self, number: usize) -> SocketAddr {
        (self.host(number), self.ports(number).client).into()
    }

    /// Returns the address of a server for clients with TLS.
    #[must_use]
    pub fn encrypted_address(&self, number: usize) -> SocketAddr {
        (self.host(number), self.ports(number).encrypted).into()
    }

    /// Returns the number of the leader.
    ///
    /// # Panics
    /// Panics if there is none for a long time.
    #[must_use]
    #[track_caller]
    pub fn leader(&self) -> usize {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(leader) = (0..self.servers.len()).find(|number| P::leads(self, *number)) {
                return leader;
            }
            sleep(PAUSE);
        }
        panic!("no server of {} is the leader", P::SCHEME);
    }

    /// Kills a server (`SIGKILL`).
    pub fn stop(&self, number: usize) {
        if let Some(mut process) = self.with_process(number, Option::take) {
            process.end(Signal::KILL);
        }
    }

    /// Stops servers that are running, and starts them again with their data. Returns once all of them answer, which may need each
    /// other.
    ///
    /// # Panics
    /// Panics with the log if one does not start.
    #[track_caller]
    pub fn restart(&self, numbers: &[usize]) {
        numbers.iter().for_each(|&number| self.stop(number));
        self.begin(numbers).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Suspends a server (`SIGSTOP`) until it is [resumed](Self::resume).
    pub fn pause(&self, number: usize) {
        self.with_process(number, |process| process.iter_mut().for_each(Process::pause));
    }

    /// Resumes a suspended server.
    pub fn resume(&self, number: usize) {
        self.with_process(number, |process| process.iter_mut().for_each(Process::resume));
    }

    /// Starts servers, and waits until they are ready.
    fn begin(&self, numbers: &[usize]) -> io::Result<()> {
        for &number in numbers {
            let log = File::options().create(true).append(true).open(self.log_path(number))?;
            let mut command = P::command(self, number)?;
            command.current_dir(self.directory(number));
            let process = Process::spawn(&mut command, log, &self.servers[number].watchdog)?;
            self.with_process(number, |current| *current = Some(process));
        }
        numbers.iter().try_for_each(|&number| self.wait_until_ready(number))
    }

    fn wait_until_ready(&self, number: usize) -> io::Result<()> {
        let begun = Instant::now();
        while !P::is_ready(self, number) {
            let log = fs::read_to_string(self.log_path(number)).unwrap_or_default();
            if log.contains(P::TAKEN) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let has_ended =
                self.with_process(number, |process| process.as_mut().is_none_or(Process::has_ended));
            if has_ended || begun.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("{} did not start; its log:\n{log}", P::SCHEME)));
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Sends a request to a server, and returns all that it answers, `None` if it does not answer.
    pub(crate) fn exchange(&self, number: usize, request: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address(number)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// Returns a command that runs the program of a server on its host.
    pub(crate) fn on_host(&self, number: usize, program: &Path) -> Command {
        match &self.network {
            Some(network) => network.command(number, program),
            None => Command::new(program),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    pub(crate) fn host(&self, number: usize) -> Ipv4Addr {
        self.network.as_ref().map_or(Ipv4Addr::LOCALHOST, |network| network.address(number))
    }

    pub(crate) fn ports(&self, number: usize) -> Ports {
        self.servers[number].ports
    }

    pub(crate) fn directory(&self, number: usize) -> &Path {
        self.servers[number].directory.path()
    }

    fn with_process<R>(&self, number: usize, f: impl FnOnce(&mut Option<Process>) -> R) -> R {
        f(&mut self.servers[number].process.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn log_path(&self, number: usize) -> PathBuf {
        self.directory(number).join("log")
    }
}

impl<P: Program> fmt::Debug for Cluster<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("url", &self.url()).finish_non_exhaustive()
    }
}

/// Returns a folder in memory if it has room, since each change of each server waits for its disk. The data of a server
/// survives its death there as well.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    match rustix::fs::statvfs(memory) {
        Ok(system) if system.f_bavail * system.f_frsize > ROOM => memory.to_owned(),
        _ => env::temp_dir(),
    }
}
