//! The process of a database server for tests: its port, its folder, its log, its start and its end.

use crate::process::{self, PATIENCE, Process, Watchdog};
use rustix::process::Signal;
use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PAUSE: Duration = Duration::from_millis(5);

/// The process, which is stopped when this is dropped.
pub(crate) struct DatabaseProcess {
    name: &'static str,
    /// Parts of the log of a server that accepts connections.
    ready: &'static [&'static str],
    /// The signal that stops it at once.
    end: Signal,
    process: Mutex<Option<Process>>,
    port: u16,
    watchdog: Arc<Watchdog>,
    directory: TempDir,
}

impl DatabaseProcess {
    /// Creates a folder that belongs to this user and group, if the caller is root.
    pub(crate) fn folder(name: &str, user: Option<(u32, u32)>) -> io::Result<TempDir> {
        let folder = tempfile::Builder::new().prefix(&format!("lock-testkit-{name}-")).tempdir()?;
        if let Some((user, group)) = user {
            chown(folder.path(), Some(user), Some(group))?;
        }
        Ok(folder)
    }

    /// Describes the server whose data is in a folder.
    pub(crate) fn new(
        name: &'static str,
        directory: TempDir,
        ready: &'static [&'static str],
        (end, signal): (Signal, &str),
    ) -> Self {
        let watchdog = Arc::new(Watchdog::new(directory.path(), signal));
        Self { name, ready, end, process: Mutex::default(), port: 0, watchdog, directory }
    }

    /// Starts the process on a free port with the command for it, and waits until it accepts connections.
    pub(crate) fn start(&mut self, command: impl Fn(&Self) -> io::Result<Command>) -> io::Result<()> {
        let begin = Instant::now();
        loop {
            self.port = process::free_port();
            match self.begin(command(self)?) {
                // Another program can take a port between its selection and its use.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && begin.elapsed() < PATIENCE => {}
                started => return started,
            }
        }
    }

    /// Stops the process if it is running, and starts it again on the same port.
    #[track_caller]
    pub(crate) fn restart(&self, command: impl Fn(&Self) -> io::Result<Command>) {
        self.stop();
        let begin = Instant::now();
        while let Err(error) = command(self).and_then(|command| self.begin(command)) {
            let retry = error.kind() == io::ErrorKind::AddrInUse && begin.elapsed() < PATIENCE;
            assert!(retry, "{error}");
            sleep(PAUSE);
        }
    }

    fn begin(&self, mut command: Command) -> io::Result<()> {
        let before = self.log().len();
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut process = Process::spawn(&mut command, log, &self.watchdog)?;
        let begin = Instant::now();
        loop {
            let log = self.log().split_off(before);
            if self.ready.iter().any(|ready| log.contains(ready)) {
                self.with_process(|current| *current = Some(process));
                return Ok(());
            }
            if log.contains("Address already in use") {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            if process.has_ended() || begin.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("{} did not start; its log:\n{log}", self.name)));
            }
            sleep(PAUSE);
        }
    }

    pub(crate) fn stop(&self) {
        if let Some(mut process) = self.with_process(Option::take) {
            process.end(self.end);
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    pub(crate) fn with_process<R>(&self, f: impl FnOnce(&mut Option<Process>) -> R) -> R {
        f(&mut self.process.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for DatabaseProcess {
    fn drop(&mut self) {
        self.stop();
    }
}
