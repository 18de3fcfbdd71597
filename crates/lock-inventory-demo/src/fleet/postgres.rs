//! A private PostgreSQL: its own port, its own directory, and a user other than root.

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

/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// The users as whom a caller that is root runs the server, the first that exists.
const USERS: [&str; 2] = ["postgres", "nobody"];
const SCRIPT: &str = include_str!("postgres.sh");

/// A running PostgreSQL. Dropping it ends the server and removes its directory; so does the end of this process.
#[derive(Debug)]
pub struct PostgresServer {
    port: u16,
    version: String,
    shell: Child,
    directory: TempDir,
}

/// There is no PostgreSQL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The programs are not installed.
    #[error(
        "there is no PostgreSQL server: install it (Debian: `apt-get install postgresql`), put `initdb` and `postgres` \
         into the PATH, or give the address of a running one to --database"
    )]
    NotInstalled,
    /// This is root, and no other user may run the server.
    #[error("PostgreSQL does not run as root: create a user `postgres`")]
    NoUser,
    /// The system refused something.
    #[error("could not start PostgreSQL")]
    System(#[from] io::Error),
    /// A blocking step ended early.
    #[error("could not start PostgreSQL")]
    Task(#[from] JoinError),
    /// A program failed.
    #[error("PostgreSQL did not start: {0}")]
    Failed(String),
}

/// Where the programs are, and as whom they run.
#[derive(Debug, Clone)]
struct Installation {
    initdb: PathBuf,
    postgres: PathBuf,
    /// The ids of a user and its group, if not those of this process.
    user: Option<(u32, u32)>,
}

impl PostgresServer {
    /// Starts a server with one database and waits until it accepts connections.
    ///
    /// It does not wait for its disk (`fsync=off`): its data are those of one run.
    ///
    /// # Errors
    /// [`PostgresError`] when there is none, or it does not start.
    ///
    /// # Cancel safety
    /// Dropping this ends the server.
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
            // What a terminal sends to this process' group must not end it.
            .process_group(0)
            .spawn()?;
        Ok(Self { port, version, shell, directory })
    }

    /// Its address, with the user `demo`, who needs no password, and the database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://demo@127.0.0.1:{}/postgres", self.port)
    }

    /// Its version, as `postgres --version` says it.
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
        // Its stdin ends, and the shell ends the server.
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
        // Their neighbours are found beside the file itself, not beside a link to it.
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

/// The folders of Debian's packages, the newest version first.
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
