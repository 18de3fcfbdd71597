//! A private PostgreSQL server for tests.

use crate::{
    ClockShift,
    database::DatabaseProcess,
    process::{self, Process},
};
use rustix::process::Signal;
use std::{
    env,
    ffi::OsStr,
    fmt, fs, io,
    net::SocketAddr,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

/// The users that can run the server if the caller is root. The first existing one is used.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// The database user. It has all permissions and no password.
const OWN_USER: &str = "testkit";

/// A running PostgreSQL server on a port of 127.0.0.1, in a temporary directory.
///
/// Dropping the value stops the server and removes the directory, even if a test panics. If the test process is killed,
/// or exits with the server in a `static`, a watchdog does both. Without [other settings](Self::with_settings), it runs
/// with `fsync=off`: its data survives a [stop](Self::stop), but not a crash of the machine. For a server that hangs, put a
/// [`TcpProxy`](crate::TcpProxy) in front of it.
///
/// The programs are those in the `PATH`, or in a folder of Debian's packages (`apt-get install postgresql`). A caller
/// that is root runs them as the user `postgres` or `nobody`, because the server refuses to run as root.
///
/// All methods block, including the runtime of an async test.
pub struct PostgresServer {
    server: DatabaseProcess,
    version: String,
    installation: Installation,
    settings: Vec<String>,
    clock: Option<ClockShift>,
}

impl PostgresServer {
    /// Starts a server and waits until it accepts connections.
    ///
    /// # Panics
    /// Panics if PostgreSQL is not installed or does not start. The message contains the remedy or the server's log.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::with_settings(&[])
    }

    /// Starts a server with settings, such as `fsync=on`.
    ///
    /// # Panics
    /// Panics like [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn with_settings(settings: &[&str]) -> Self {
        Self::try_with(settings, None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a server with settings and this wall clock.
    ///
    /// # Panics
    /// Panics like [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn with_clock(settings: &[&str], clock: &ClockShift) -> Self {
        Self::try_with(settings, Some(clock.clone())).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a server like [`start`](Self::start), for a program that reports the error.
    ///
    /// # Errors
    /// Returns an error of the kind [`NotFound`](io::ErrorKind::NotFound) if PostgreSQL is not installed, and another
    /// one if it does not start. The message contains the remedy or the server's log.
    pub fn try_start() -> io::Result<Self> {
        Self::try_with(&[], None)
    }

    fn try_with(settings: &[&str], clock: Option<ClockShift>) -> io::Result<Self> {
        let installation = Installation::find()?;
        let directory = DatabaseProcess::folder("postgres", installation.user)?;
        let version = installation.output("postgres", directory.path(), ["--version"])?;
        let user = format!("--username={OWN_USER}");
        let options = [&user, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D", "data"];
        installation.output("initdb", directory.path(), options)?;
        Self::on(installation, version, directory, settings, clock)
    }

    /// Starts a standby of this server, which replicates to it asynchronously unless it has a setting for it.
    ///
    /// # Panics
    /// Panics if it does not start.
    #[must_use]
    #[track_caller]
    pub fn standby(&self) -> Self {
        self.try_standby().unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_standby(&self) -> io::Result<Self> {
        let installation = Installation::find()?;
        let directory = DatabaseProcess::folder("postgres", installation.user)?;
        let port = self.server.port().to_string();
        let options =
            ["-h", "127.0.0.1", "-p", &port, "-U", OWN_USER, "-D", "data", "-R", "-c", "fast", "--no-sync"];
        installation.output("pg_basebackup", directory.path(), options)?;
        let settings: Vec<_> = self.settings.iter().map(String::as_str).collect();
        Self::on(installation, self.version.clone(), directory, &settings, None)
    }

    /// Makes a standby a primary. Returns once it accepts writes.
    ///
    /// # Panics
    /// Panics if it does not become one.
    #[track_caller]
    pub fn promote(&self) {
        let options = ["promote", "-D", "data", "-w"];
        if let Err(error) = self.installation.output("pg_ctl", self.directory(), options) {
            panic!("{error}");
        }
    }

    /// Starts the server whose data is in a directory.
    fn on(
        installation: Installation,
        version: String,
        directory: TempDir,
        settings: &[&str],
        clock: Option<ClockShift>,
    ) -> io::Result<Self> {
        let ready = &["ready to accept connections", "ready to accept read-only connections"];
        // The other processes of the server end with the first one.
        let mut server = DatabaseProcess::new("PostgreSQL", directory, ready, (Signal::QUIT, "QUIT"));
        let settings: Vec<_> = settings.iter().map(|&setting| setting.to_owned()).collect();
        server.start(|server| Ok(start(&installation, &settings, clock.as_ref(), server)))?;
        Ok(Self { server, version, installation, settings, clock })
    }

    /// Returns the URL of the database `postgres`, which always exists.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Creates a database, unless it exists, and returns its URL.
    ///
    /// # Panics
    /// Panics if the server refuses it or does not respond.
    #[must_use]
    #[track_caller]
    pub fn database(&self, name: &str) -> String {
        let port = self.server.port().to_string();
        let options = ["--host=127.0.0.1", "--port", &port, "--username", OWN_USER, "--no-password", name];
        match self.installation.output("createdb", self.directory(), options) {
            Err(error) if !error.to_string().contains("already exists") => panic!("{error}"),
            _ => self.url_of(name),
        }
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://{OWN_USER}@{}/{database}", self.address())
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

    /// Returns the process id, or `None` if the server is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.server.with_process(|process| process.as_ref().map(Process::id))
    }

    /// Returns the version, as printed by `postgres --version`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Stops the server at once (`SIGQUIT`), as in a crash: connections are cut, transactions are lost, and committed
    /// data remains. A [restart](Self::restart) uses the same port, which the kernel does not assign to other programs.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// Stops the server if it is running, and starts it again with its data. Returns once it accepts connections.
    ///
    /// # Panics
    /// Panics with the server's log if it does not start.
    #[track_caller]
    pub fn restart(&self) {
        let Self { installation, settings, clock, .. } = self;
        self.server.restart(|server| Ok(start(installation, settings, clock.as_ref(), server)));
    }

    /// Returns a command that runs as the user of the server, in a folder that becomes that user's.
    pub(crate) fn command(&self, program: &Path, folder: &Path) -> io::Result<Command> {
        if let Some((user, group)) = self.installation.user {
            chown(folder, Some(user), Some(group))?;
        }
        Ok(self.installation.command(program, folder))
    }
}

impl fmt::Debug for PostgresServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresServer")
            .field("address", &self.address())
            .field("pid", &self.pid())
            .field("directory", &self.directory())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Returns the command that starts a server.
fn start(
    installation: &Installation,
    settings: &[String],
    clock: Option<&ClockShift>,
    server: &DatabaseProcess,
) -> Command {
    let folder = server.directory();
    let mut command = installation.command("postgres", folder);
    command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    command.args(["-p", &server.port().to_string(), "-c", "listen_addresses=127.0.0.1"]);
    let defaults = ["fsync=off", "max_connections=200"];
    command.args(defaults.into_iter().chain(settings.iter().map(String::as_str)).flat_map(|s| ["-c", s]));
    if let Some(clock) = clock {
        clock.give_to(&mut command);
    }
    command
}

/// The programs, and the user that runs them.
#[derive(Debug)]
struct Installation {
    folder: PathBuf,
    /// The user id and group id to run as; `None` for those of this process.
    user: Option<(u32, u32)>,
}

impl Installation {
    fn find() -> io::Result<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders: Vec<_> = env::split_paths(&path).chain(debian_folders()).collect();
        let program = folders
            .iter()
            .find(|folder| ["initdb", "postgres"].iter().all(|name| folder.join(name).exists()))
            .map(|folder| folder.join("postgres"));
        let program = program.ok_or_else(|| {
            let remedy = "PostgreSQL was not found: install it (Debian: `apt-get install postgresql`), or put `initdb`, \
                          `postgres` and `createdb` on the PATH";
            io::Error::new(io::ErrorKind::NotFound, remedy)
        })?;
        // PostgreSQL finds its other files relative to the real path of the program, not relative to a link.
        let folder = program.canonicalize()?.parent().map(Path::to_owned).unwrap_or_default();
        let user = process::unprivileged(&USERS)?;
        Ok(Self { folder, user })
    }

    /// Runs a program to its end and returns its output, or its complaint as an error.
    fn output<A: AsRef<OsStr>>(
        &self,
        program: &str,
        directory: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> io::Result<String> {
        let Output { status, stdout, stderr } =
            self.command(program, directory).args(arguments).stdin(Stdio::null()).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if status.success() {
            Ok(text(&stdout))
        } else {
            Err(io::Error::other(format!("{program} failed: {}", text(&stderr))))
        }
    }

    /// A program of this installation, or another one with its path.
    fn command(&self, program: impl AsRef<Path>, directory: &Path) -> Command {
        let mut command = Command::new(self.folder.join(program));
        command.current_dir(directory).env("LC_ALL", "C");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }
}

/// Returns the program folders of Debian's packages, newest version first.
fn debian_folders() -> Vec<PathBuf> {
    let entries = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries.map(|entry| entry.path().join("bin")).collect();
    folders.sort();
    folders.reverse();
    folders
}
