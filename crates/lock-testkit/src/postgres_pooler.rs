//! A pooler in front of a PostgreSQL server, for tests.

use crate::{
    postgres::PostgresServer,
    process::{PATIENCE, Process, Watchdog, free_port},
};
use std::{
    env, fmt,
    fs::{self, File},
    io,
    net::{Ipv4Addr, TcpStream},
    path::PathBuf,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

/// A pgbouncer that gives each transaction any of two connections to a server.
///
/// Dropping the value stops it. The program is that in the `PATH` or in `/usr/sbin` (`apt-get install pgbouncer`).
pub struct PostgresPooler {
    url: String,
    _process: Process,
}

impl PostgresPooler {
    /// Starts a pooler for the databases of a server, which must outlive it.
    ///
    /// # Panics
    /// Panics if pgbouncer is not installed or does not start. The message contains the remedy or its log.
    #[must_use]
    #[track_caller]
    pub fn of(server: &PostgresServer) -> Self {
        Self::start(server).unwrap_or_else(|error| panic!("{error}"))
    }

    fn start(server: &PostgresServer) -> io::Result<Self> {
        let program = program()?;
        let port = free_port();
        let folder = server.directory().join(format!("pooler-{port}"));
        fs::create_dir(&folder)?;
        let (address, settings) = (server.address(), folder.join("settings"));
        let own = folder.display();
        fs::write(
            &settings,
            format!(
                "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
                 unix_socket_dir = {own}\nauth_type = trust\nauth_file = {own}/users\npool_mode = transaction\n\
                 default_pool_size = 2\n",
                address.ip(),
                address.port()
            ),
        )?;
        let user = server.url().split(['/', '@']).nth(2).unwrap_or_default().to_owned();
        fs::write(folder.join("users"), format!("\"{user}\" \"\"\n"))?;
        let log = folder.join("log");
        let watchdog = Arc::new(Watchdog::new(&folder, "KILL"));
        let mut command = server.command(&program, &folder)?;
        let mut process = Process::spawn(command.arg(&settings), File::create(&log)?, &watchdog)?;
        let begin = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if process.has_ended() || begin.elapsed() > PATIENCE {
                let log = fs::read_to_string(&log).unwrap_or_default();
                return Err(io::Error::other(format!("pgbouncer did not start; its log:\n{log}")));
            }
            sleep(Duration::from_millis(5));
        }
        let url = server.url().replace(&address.to_string(), &format!("127.0.0.1:{port}"));
        Ok(Self { url, _process: process })
    }

    /// Returns the URL of the database `postgres` through the pooler.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl fmt::Debug for PostgresPooler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresPooler").field("url", &self.url).finish_non_exhaustive()
    }
}

fn program() -> io::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join("pgbouncer")).find(|program| program.exists());
    found.ok_or_else(|| {
        let remedy = "pgbouncer was not found: install it (Debian: `apt-get install pgbouncer`)";
        io::Error::new(io::ErrorKind::NotFound, remedy)
    })
}
