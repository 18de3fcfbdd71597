//! A private MariaDB server for tests.

use crate::{
    ClockShift,
    process::{self, PATIENCE, Process, Watchdog},
};
use rustix::process::Signal;
use std::{
    env, fmt,
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PAUSE: Duration = Duration::from_millis(5);

/// The users that can run the server if the caller is root. The first existing one is used.
const USERS: [&str; 2] = ["mysql", "nobody"];

/// The database user. It has all permissions and no password.
const OWN_USER: &str = "testkit";

/// A running MariaDB server on a port of 127.0.0.1, in a temporary directory.
///
/// Dropping the value stops the server and removes the directory, even if a test panics. If the test process is killed,
/// or exits with the server in a `static`, a watchdog does both. Its data survives a [stop](Self::stop).
///
/// The programs are those in the `PATH` or in `/usr/sbin` (Debian: `apt-get install mariadb-server`). A caller that is root
/// runs them as the user `mysql` or `nobody`, because the server refuses to run as root.
///
/// All methods block, including the runtime of an async test.
pub struct MariaDbServer {
    process: Mutex<Option<Process>>,
    port: u16,
    user: Option<(u32, u32)>,
    watchdog: Arc<Watchdog>,
    directory: TempDir,
    settings: Vec<String>,
    clock: Option<ClockShift>,
}

impl MariaDbServer {
    /// Starts a server and waits until it accepts connections.
    ///
    /// # Panics
    /// Panics if MariaDB is not installed or does not start. The message contains the remedy or the server's log.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::with_settings(&[])
    }

    /// Starts a server with settings, such as `innodb-flush-log-at-trx-commit=0`.
    ///
    /// # Panics
    /// Panics like [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn with_settings(settings: &[&str]) -> Self {
        Self::try_start(settings, None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a server with this wall clock.
    ///
    /// # Panics
    /// Panics like [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn with_clock(clock: &ClockShift) -> Self {
        Self::try_start(&[], Some(clock.clone())).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_start(settings: &[&str], clock: Option<ClockShift>) -> io::Result<Self> {
        let user = process::unprivileged(&USERS)?;
        let directory = tempfile::Builder::new().prefix("lock-testkit-mariadb-").tempdir()?;
        if let Some((user, group)) = user {
            chown(directory.path(), Some(user), Some(group))?;
        }
        let watchdog = Arc::new(Watchdog::new(directory.path(), "KILL"));
        let settings = settings.iter().map(|setting| format!("--{setting}")).collect();
        let mut server =
            Self { process: Mutex::default(), port: 0, user, watchdog, directory, settings, clock };
        server.output(
            server
                .command("mariadb-install-db")?
                .arg(server.data())
                .args(["--auth-root-authentication-method=normal", "--skip-test-db"]),
        )?;
        // A statement a line.
        let grants = format!(
            "create user if not exists '{OWN_USER}'@'%';\ngrant all on *.* to '{OWN_USER}'@'%' with grant option;\n"
        );
        fs::write(server.grants(), grants)?;
        let begin = Instant::now();
        loop {
            server.port = process::free_port();
            match server.begin() {
                Ok(()) => return Ok(server),
                // Another program can take a port between its selection and its use.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && begin.elapsed() < PATIENCE => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates a database, unless it exists, and returns its URL.
    ///
    /// # Panics
    /// Panics if the server refuses it or does not respond.
    #[must_use]
    #[track_caller]
    pub fn database(&self, name: &str) -> String {
        self.execute(&format!("create database if not exists `{name}`"));
        format!("mysql://{OWN_USER}@{}/{name}", self.address())
    }

    /// Executes statements as a user with all permissions.
    ///
    /// # Panics
    /// Panics if the server refuses them or does not respond.
    #[track_caller]
    pub fn execute(&self, statements: &str) {
        let executed = self.command("mariadb").and_then(|mut client| {
            client.args([
                "-h127.0.0.1",
                &format!("-P{}", self.port),
                &format!("-u{OWN_USER}"),
                "-e",
                statements,
            ]);
            self.output(&mut client)
        });
        if let Err(error) = executed {
            panic!("{error}");
        }
    }

    /// Returns the server's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the server's directory, which contains its data and its log.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns everything that the server has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Suspends the process (`SIGSTOP`) until it is [resumed](Self::resume).
    pub fn pause(&self) {
        self.with_process(|process| process.iter_mut().for_each(Process::pause));
    }

    /// Resumes a suspended process.
    pub fn resume(&self) {
        self.with_process(|process| process.iter_mut().for_each(Process::resume));
    }

    /// Kills the server (`SIGKILL`): connections are cut, transactions are lost, and committed data remains. A
    /// [restart](Self::restart) uses the same port, which the kernel does not assign to other programs.
    pub fn stop(&self) {
        if let Some(mut process) = self.with_process(Option::take) {
            process.end(Signal::KILL);
        }
    }

    /// Stops the server if it is running, and starts it again with its data. Returns once it accepts connections.
    ///
    /// # Panics
    /// Panics with the server's log if it does not start.
    #[track_caller]
    pub fn restart(&self) {
        self.stop();
        let begin = Instant::now();
        while let Err(error) = self.begin() {
            let retry = error.kind() == io::ErrorKind::AddrInUse && begin.elapsed() < PATIENCE;
            assert!(retry, "{error}");
            sleep(PAUSE);
        }
    }

    /// Starts the process, and waits until it accepts connections.
    fn begin(&self) -> io::Result<()> {
        let before = self.log().len();
        let said = || self.log().split_off(before);
        let mut command = self.command("mariadbd")?;
        command.arg(self.data()).arg(format!("--init-file={}", self.grants().display()));
        command.arg(format!("--port={}", self.port)).args([
            "--socket=socket",
            "--pid-file=pid",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--max-connections=500",
        ]);
        command.args(&self.settings);
        if let Some(clock) = &self.clock {
            clock.give_to(&mut command);
        }
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut process = Process::spawn(&mut command, log, &self.watchdog)?;
        let begin = Instant::now();
        loop {
            let log = said();
            if log.contains("ready for connections") {
                self.with_process(|current| *current = Some(process));
                return Ok(());
            }
            if log.contains("Address already in use") {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            if process.has_ended() || begin.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("MariaDB did not start; its log:\n{log}")));
            }
            sleep(PAUSE);
        }
    }

    fn data(&self) -> String {
        format!("--datadir={}", self.directory.path().join("data").display())
    }

    fn grants(&self) -> PathBuf {
        self.directory.path().join("grants.sql")
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Returns a command without the settings of the machine, as the user of the server.
    fn command(&self, program: &str) -> io::Result<Command> {
        let mut command = Command::new(find(program)?);
        command.arg("--no-defaults").current_dir(self.directory.path()).env("LC_ALL", "C");
        // Servers that share a folder for temporary tables take each other's.
        command.env("TMPDIR", self.directory.path());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        Ok(command)
    }

    /// Runs a program to its end, and returns its complaint as an error.
    fn output(&self, command: &mut Command) -> io::Result<()> {
        let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output()?;
        let said = [stdout, stderr].concat();
        let complaint = || format!("{:?} failed: {}", command.get_program(), String::from_utf8_lossy(&said));
        if status.success() { Ok(()) } else { Err(io::Error::other(complaint())) }
    }

    fn with_process<R>(&self, f: impl FnOnce(&mut Option<Process>) -> R) -> R {
        f(&mut self.process.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for MariaDbServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for MariaDbServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MariaDbServer")
            .field("address", &self.address())
            .field("directory", &self.directory.path())
            .finish_non_exhaustive()
    }
}

fn find(program: &str) -> io::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join(program)).find(|program: &PathBuf| Path::exists(program));
    found.ok_or_else(|| {
        let remedy = "MariaDB was not found: install it (Debian: `apt-get install mariadb-server`), or put `mariadbd`, \
                      `mariadb-install-db` and `mariadb` on the PATH";
        io::Error::new(io::ErrorKind::NotFound, remedy)
    })
}
