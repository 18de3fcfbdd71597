//! Servers that form a cluster, for tests: their processes, folders and logs.

use crate::{
    network::Network,
    process::{PATIENCE, Process, Watchdog},
};
use rustix::process::Signal;
use std::{
    env,
    fs::{self, File},
    io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// The free bytes that clusters need in memory.
const ROOM: u64 = 2 << 30;

/// The servers, which are killed when this is dropped.
pub(crate) struct Ensemble {
    /// The name of the program.
    name: &'static str,
    /// A part of the log of a server whose port is taken.
    taken: &'static str,
    members: Vec<Member>,
    network: Option<Arc<Network>>,
}

struct Member {
    process: Mutex<Option<Process>>,
    watchdog: Arc<Watchdog>,
    directory: TempDir,
}

impl Ensemble {
    /// Starts the servers that `begin` makes, and repeats it if another program has taken a port between its selection and its
    /// use.
    pub(crate) fn try_start<T>(mut begin: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let begun = Instant::now();
        loop {
            match begin() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && begun.elapsed() < PATIENCE => {}
                started => return started,
            }
        }
    }

    pub(crate) fn new(
        name: &'static str,
        taken: &'static str,
        number: usize,
        network: Option<&Arc<Network>>,
    ) -> io::Result<Self> {
        let members = (0..number).map(|_| {
            let directory =
                tempfile::Builder::new().prefix(&format!("lock-testkit-{name}-")).tempdir_in(folder())?;
            let watchdog = Arc::new(Watchdog::new(directory.path(), "KILL"));
            Ok(Member { process: Mutex::default(), watchdog, directory })
        });
        let members = members.collect::<io::Result<_>>()?;
        Ok(Self { name, taken, members, network: network.cloned() })
    }

    /// Returns the address at which a server listens.
    pub(crate) fn host(&self, number: usize) -> Ipv4Addr {
        self.network.as_ref().map_or(Ipv4Addr::LOCALHOST, |network| network.address(number))
    }

    /// Returns a command that runs the program of a server on its host.
    pub(crate) fn command(&self, number: usize, program: &Path) -> Command {
        match &self.network {
            Some(network) => network.command(number, program),
            None => Command::new(program),
        }
    }

    pub(crate) fn directory(&self, number: usize) -> &Path {
        self.members[number].directory.path()
    }

    /// Starts a server in its folder.
    pub(crate) fn begin(&self, number: usize, command: &mut Command) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(self.log_path(number))?;
        command.current_dir(self.directory(number));
        let process = Process::spawn(command, log, &self.members[number].watchdog)?;
        self.with_process(number, |current| *current = Some(process));
        Ok(())
    }

    /// Waits until a server that was started is ready.
    pub(crate) fn wait(&self, number: usize, is_ready: impl Fn() -> bool) -> io::Result<()> {
        let begun = Instant::now();
        while !is_ready() {
            let log = fs::read_to_string(self.log_path(number)).unwrap_or_default();
            if log.contains(self.taken) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let has_ended =
                self.with_process(number, |process| process.as_mut().is_none_or(Process::has_ended));
            if has_ended || begun.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("{} did not start; its log:\n{log}", self.name)));
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Returns the first server for which this is true, which may take long.
    #[track_caller]
    pub(crate) fn find(&self, what: &str, is_found: impl Fn(usize) -> bool) -> usize {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(number) = (0..self.members.len()).find(|number| is_found(*number)) {
                return number;
            }
            sleep(PAUSE);
        }
        panic!("no server of {} is {what}", self.name);
    }

    pub(crate) fn stop(&self, number: usize) {
        if let Some(mut process) = self.with_process(number, Option::take) {
            process.end(Signal::KILL);
        }
    }

    pub(crate) fn pause(&self, number: usize) {
        self.with_process(number, |process| process.iter_mut().for_each(Process::pause));
    }

    pub(crate) fn resume(&self, number: usize) {
        self.with_process(number, |process| process.iter_mut().for_each(Process::resume));
    }

    fn with_process<R>(&self, number: usize, f: impl FnOnce(&mut Option<Process>) -> R) -> R {
        f(&mut self.members[number].process.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn log_path(&self, number: usize) -> PathBuf {
        self.directory(number).join("log")
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
