//! A private MariaDB server for tests.

use crate::{
    ClockShift,
    database::DatabaseProcess,
    process::{self, Process},
};
use rustix::process::Signal;
use std::{
    env, fmt, fs, io,
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

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
    server: DatabaseProcess,
    user: Option<(u32, u32)>,
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
        let directory = DatabaseProcess::folder("mariadb", user)?;
        let ready = &["ready for connections"];
        let server = DatabaseProcess::new("MariaDB", directory, ready, (Signal::KILL, "KILL"));
        let settings: Vec<_> = settings.iter().map(|setting| format!("--{setting}")).collect();
        let mut install = command(user, "mariadb-install-db", &server)?;
        install.arg(data(&server)).args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        output(&mut install)?;
        // A statement a line.
        let grants = format!(
            "create user if not exists '{OWN_USER}'@'%';\ngrant all on *.* to '{OWN_USER}'@'%' with grant option;\n"
        );
        fs::write(grants_of(&server), grants)?;
        let mut this = Self { server, user, settings, clock };
        let Self { server, settings, clock, .. } = &mut this;
        server.start(|server| start(user, settings, clock.as_ref(), server))?;
        Ok(this)
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
        let executed = command(self.user, "mariadb", &self.server).and_then(|mut client| {
            client.args([
                "-h127.0.0.1",
                &format!("-P{}", self.server.port()),
                &format!("-u{OWN_USER}"),
                "-e",
                statements,
            ]);
            output(&mut client)
        });
        if let Err(error) = executed {
            panic!("{error}");
        }
    }

    /// Returns the server's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the server's directory, which contains its data and its log.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.server.directory()
    }

    /// Returns everything that the server has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.server.log()
    }

    /// Suspends the process (`SIGSTOP`) until it is [resumed](Self::resume).
    pub fn pause(&self) {
        self.server.with_process(|process| process.iter_mut().for_each(Process::pause));
    }

    /// Resumes a suspended process.
    pub fn resume(&self) {
        self.server.with_process(|process| process.iter_mut().for_each(Process::resume));
    }

    /// Kills the server (`SIGKILL`): connections are cut, transactions are lost, and committed data remains. A
    /// [restart](Self::restart) uses the same port, which the kernel does not assign to other programs.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// Stops the server if it is running, and starts it again with its data. Returns once it accepts connections.
    ///
    /// # Panics
    /// Panics with the server's log if it does not start.
    #[track_caller]
    pub fn restart(&self) {
        self.server.restart(|server| start(self.user, &self.settings, self.clock.as_ref(), server));
    }
}

impl fmt::Debug for MariaDbServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MariaDbServer")
            .field("address", &self.address())
            .field("directory", &self.directory())
            .finish_non_exhaustive()
    }
}

/// Returns the command that starts a server.
fn start(
    user: Option<(u32, u32)>,
    settings: &[String],
    clock: Option<&ClockShift>,
    server: &DatabaseProcess,
) -> io::Result<Command> {
    let mut command = command(user, "mariadbd", server)?;
    command.arg(data(server)).arg(format!("--init-file={}", grants_of(server).display()));
    command.arg(format!("--port={}", server.port())).args([
        "--socket=socket",
        "--pid-file=pid",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        "--max-connections=500",
    ]);
    command.args(settings);
    if let Some(clock) = clock {
        clock.give_to(&mut command);
    }
    Ok(command)
}

/// Returns a command without the settings of the machine, as the user of the server.
fn command(user: Option<(u32, u32)>, program: &str, server: &DatabaseProcess) -> io::Result<Command> {
    let mut command = Command::new(find(program)?);
    command.arg("--no-defaults").current_dir(server.directory()).env("LC_ALL", "C");
    // Servers that share a folder for temporary tables take each other's.
    command.env("TMPDIR", server.directory());
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    Ok(command)
}

/// Runs a program to its end, and returns its complaint as an error.
fn output(command: &mut Command) -> io::Result<()> {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output()?;
    let said = [stdout, stderr].concat();
    let complaint = || format!("{:?} failed: {}", command.get_program(), String::from_utf8_lossy(&said));
    if status.success() { Ok(()) } else { Err(io::Error::other(complaint())) }
}

fn data(server: &DatabaseProcess) -> String {
    format!("--datadir={}", server.directory().join("data").display())
}

fn grants_of(server: &DatabaseProcess) -> PathBuf {
    server.directory().join("grants.sql")
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
