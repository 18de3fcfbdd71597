//! A private PostgreSQL server with its own port and directory. It never runs as root.

use rustix::process::geteuid;
use std::{
    env,
    ffi::OsStr,
    fs, io,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    task::{JoinError, spawn_blocking},
    time::{Instant, sleep},
};

/// Time limit for the server's start.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// Users that can run the server if the caller is root. The first existing one is used.
const USERS: [&str; 2] = ["postgres", "nobody"];
const SCRIPT: &str = include_str!("postgres.sh");

/// A running PostgreSQL server. It is stopped and its directory removed when this value is dropped
/// or this process exits.
#[derive(Debug)]
pub struct PostgresServer {
    port: u16,
    version: String,
    shell: Child,
    directory: TempDir,
}

/// An error while starting a PostgreSQL server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The programs are not installed.
    #[error(
        "PostgreSQL was not found: install it (on Debian, `apt-get install postgresql`), put `initdb` and `postgres` on \
         the PATH, or set --database to the address of a running server"
    )]
    NotInstalled,
    /// The caller is root, and no suitable user exists to run the server.
    #[error("PostgreSQL refuses to run as root: create a `postgres` user")]
    NoUser,
    /// A system call failed.
    #[error("could not start PostgreSQL")]
    System(#[from] io::Error),
    /// A blocking task panicked or was cancelled.
    #[error("could not start PostgreSQL")]
    Task(#[from] JoinError),
    /// `initdb` failed, or the server did not become ready.
    #[error("PostgreSQL did not start: {0}")]
    Failed(String),
}

/// The location of the programs, and the user that runs them.
#[derive(Debug, Clone)]
struct Installation {
    initdb: PathBuf,
    postgres: PathBuf,
    /// User id and group id to run as; `None` for those of this process.
    user: Option<(u32, u32)>,
}

impl PostgresServer {
    /// Starts a server with one database and waits until it accepts connections.
    ///
    /// The server runs with `fsync=off`, because its data is only needed for one run.
    ///
    /// # Errors
    /// Returns [`PostgresError`] if PostgreSQL is not installed or does not start.
    ///
    /// # Cancel safety
    /// Dropping this stops the server.
    pub async fn start() -> Result<Self, PostgresError> {
        let server = spawn_blocking(Self::spawn).await??;
        let begin = Instant::now();
        loop {
            let log = server.log();
            if log.contains("ready to accept connections") {
                return Ok(server);
            }
            if log.contains("FATAL") || begin.elapsed() > PATIENCE {
                return Err(PostgresError::Failed(log));
            }
            sleep(LOOK).await;
        }
    }

    fn spawn() -> Result<Self, PostgresError> {
        let installation = Installation::find()?;
        let directory = tempfile::Builder::new().prefix("lock-demo-postgres-").tempdir()?;
        if let Some((user, group)) = installation.user {
            chown(directory.path(), Some(user), Some(group))?;
        }
        let version =
            text(&installation.run(&installation.postgres, directory.path(), ["--version"])?.stdout);
        let data = directory.path().join("data");
        let options = ["--username=demo", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"];
        let options = options.iter().map(OsStr::new).chain([data.as_os_str()]);
        let made = installation.run(&installation.initdb, directory.path(), options)?;
        if !made.status.success() {
            return Err(PostgresError::Failed(text(&made.stderr)));
        }
        // If another process takes the port first, the server reports an error.
        let port = lock_testkit::unused_address().port();
        let shell = installation
            .command(OsStr::new("sh"), directory.path())
            .args(["-c", SCRIPT, "postgres"])
            .arg(&installation.postgres)
            .arg(directory.path())
            .arg(port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Terminal signals for this process's group must not reach the server.
            .process_group(0)
            .spawn()?;
        Ok(Self { port, version, shell, directory })
    }

    /// Returns the address, with the user `demo` (no password) and the database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://demo@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns the version, as printed by `postgres --version`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    fn log(&self) -> String {
        let bytes = fs::read(self.directory.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // When its stdin ends, the shell stops the server.
        self.shell.stdin.take();
        let _ = self.shell.wait();
    }
}

impl Installation {
    fn find() -> Result<Self, PostgresError> {
        let folders: Vec<_> = env::var_os("PATH")
            .map(|path| env::split_paths(&path).collect::<Vec<_>>())
            .unwrap_or_default()
            .into_iter()
            .chain(debian_folders())
            .collect();
        let folder = folders
            .iter()
            .find(|folder| ["initdb", "postgres"].iter().all(|name| folder.join(name).exists()));
        let folder = folder.ok_or(PostgresError::NotInstalled)?;
        // PostgreSQL finds its other files relative to the real path of the program, not relative to a link.
        let program = |name| folder.join(name).canonicalize();
        let user = if geteuid().is_root() { Some(other_user()?) } else { None };
        Ok(Self { initdb: program("initdb")?, postgres: program("postgres")?, user })
    }

    fn run<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        directory: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> io::Result<Output> {
        self.command(program.as_os_str(), directory).args(arguments).stdin(Stdio::null()).output()
    }

    fn command(&self, program: &OsStr, directory: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(directory);
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

fn other_user() -> Result<(u32, u32), PostgresError> {
    let passwd = fs::read_to_string("/etc/passwd")?;
    let ids = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    USERS.iter().find_map(|name| ids(name)).ok_or(PostgresError::NoUser)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
