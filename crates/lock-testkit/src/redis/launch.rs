//! The start of a server, with its directory and its `redis.conf`.
//!
//! A server has started once its process responds and has loaded its data.

use super::{RawRedis, RedisSentinels, RedisServer};
use crate::{
    ClockShift,
    process::{self, PATIENCE, Process, Watchdog},
};
use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The testkit's own user. It has all permissions, regardless of the default user's.
pub(super) const OWN_USER: &str = "testkit";
/// The name of the socket in the server's directory.
pub(super) const SOCKET: &str = "redis.sock";
/// The name of the dump in the server's directory.
const DUMP: &str = "dump.rdb";
/// The time limit for each request during the start.
const QUESTION: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(3);

/// The PEM files that a server needs for TLS.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// The certificate authority for the server's certificate.
    pub authority: PathBuf,
    /// The certificate authority for client certificates. If set, every client must present one.
    pub client_authority: Option<PathBuf>,
}

/// A server's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) plain: u16,
    pub(super) tls: Option<u16>,
}

/// A server's settings.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) port: Option<u16>,
    pub(super) master: Option<u16>,
    /// The port of the monitored master, for a sentinel.
    pub(super) watched: Option<u16>,
    pub(super) unix_socket: bool,
    pub(super) persistent: bool,
    pub(super) tls: Option<TlsFiles>,
    pub(super) clock: Option<ClockShift>,
    own: String,
}

impl Settings {
    pub(super) fn directive(&mut self, directive: &str, value: &str) {
        set(&mut self.own, directive, value);
    }

    pub(super) fn line(&mut self, line: &str) {
        self.own.push_str(line);
        self.own.push('\n');
    }

    /// Returns the whole file. The test's own lines come last, because later directives override
    /// earlier ones.
    pub(super) fn text(&self, ports: Ports, directory: &Path) -> String {
        if let Some(master) = self.watched {
            return sentinel(master, self.tls.as_ref(), ports, directory) + &self.own;
        }
        let mut text = String::new();
        let mut say = |directive, value: &str| set(&mut text, directive, value);
        say("bind", "127.0.0.1");
        say("port", &ports.plain.to_string());
        say("dir", &words(directory));
        say("dbfilename", DUMP);
        say("appendonly", "no");
        // No timed dumps. With them, the data would depend on the duration of the test.
        say("save", if self.persistent { "86400 1" } else { "" });
        // By default, a master waits 5 seconds for more replicas.
        say("repl-diskless-sync-delay", "0");
        if self.unix_socket {
            say("unixsocket", &words(&directory.join(SOCKET)));
            say("unixsocketperm", "700");
        }
        if self.master.is_some() {
            say("masteruser", OWN_USER);
            say("masterauth", OWN_USER);
        }
        if let (Some(files), Some(port)) = (&self.tls, ports.tls) {
            secure(&mut text, files, port);
        }
        if let Some(master) = self.master {
            let _ = writeln!(text, "replicaof 127.0.0.1 {master}");
        }
        let _ = writeln!(text, "user {OWN_USER} on nopass ~* &* +@all");
        text + &self.own
    }
}

/// A server's directory, and the watchdog that cleans up the server and the directory.
#[derive(Debug)]
pub(super) struct Home {
    directory: TempDir,
    pub(super) watchdog: Arc<Watchdog>,
}

impl Home {
    pub(super) fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("lock-testkit-redis-")
            .tempdir()
            .expect("failed to create a temporary directory");
        let watchdog = Arc::new(Watchdog::new(directory.path(), "KILL"));
        Self { directory, watchdog }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn config_path(&self) -> PathBuf {
        self.path().join("redis.conf")
    }

    pub(super) fn dump_path(&self) -> PathBuf {
        self.path().join(DUMP)
    }

    /// Opens the log for appending. It receives the process's output, including errors from before
    /// the process opens its log file.
    pub(super) fn log_file(&self) -> File {
        File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("failed to create a file in the temporary directory")
    }

    /// Returns the whole log.
    pub(super) fn log(&self) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.path().join("redis.log")
    }

    /// Removes all files from which a server could load data.
    pub(super) fn forget_data(&self) {
        absent(fs::remove_file(self.dump_path()));
        absent(fs::remove_dir_all(self.path().join("appendonlydir")));
        absent(fs::remove_file(self.path().join("appendonly.aof")));
    }
}

/// A server that is ready, and the version that it reports.
struct Ready {
    process: Process,
    version: String,
}

/// Starts a server for the first time, on free ports.
#[track_caller]
pub(super) fn first(settings: Settings) -> RedisServer {
    let home = Home::new();
    let choose = || Ports {
        plain: settings.port.unwrap_or_else(process::free_port),
        tls: settings.tls.as_ref().map(|_| process::free_port()),
    };
    let (ports, Ready { process, version }) = start(&home, &settings, choose);
    RedisServer { process: Mutex::new(Some(process)), home, settings, ports, version }
}

/// Starts a server again, on the same ports.
#[track_caller]
pub(super) fn again(server: &RedisServer) -> Process {
    start(&server.home, &server.settings, || server.ports).1.process
}

/// Starts the server. Another program can take a port between its selection and its use. In that
/// case, the start is retried with the next ports, or with the same ones until they are free.
#[track_caller]
fn start(home: &Home, settings: &Settings, choose: impl Fn() -> Ports) -> (Ports, Ready) {
    let begin = Instant::now();
    loop {
        let ports = choose();
        fs::write(home.config_path(), settings.text(ports, home.path()))
            .expect("failed to write to the temporary directory");
        match attempt(home, settings, ports) {
            Ok(ready) => return (ports, ready),
            Err(log) if log.contains("Address already in use") && begin.elapsed() < PATIENCE => {
                sleep(Duration::from_millis(50));
            }
            Err(log) => panic!("redis-server did not start on port {}; its log:\n{log}", ports.plain),
        }
    }
}

/// Tries to start the server once. If that fails, returns the process's output.
fn attempt(home: &Home, settings: &Settings, ports: Ports) -> Result<Ready, String> {
    let before = home.log().len();
    let said = || home.log().split_off(before);
    let mut process = spawn(home, settings);
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if process.has_ended() {
            return Err(said());
        }
        if let Ok(info) = info(ports.plain)
            // Another server that took the port may respond before ours fails.
            && field(&info, "process_id") == Some(process.id().to_string().as_str())
            // A sentinel loads no data.
            && field(&info, "loading").unwrap_or("0") == "0"
        {
            let version = field(&info, "redis_version").unwrap_or_default().to_owned();
            return Ok(Ready { process, version });
        }
        sleep(PAUSE);
    }
    Err(said() + "\n(the server did not respond)")
}

/// Starts the process in this directory, with the configuration stored there.
fn spawn(home: &Home, settings: &Settings) -> Process {
    let binary = env::var_os(RedisServer::VARIABLE).unwrap_or_else(|| OsString::from("redis-server"));
    let mut command = Command::new(&binary);
    if let Some(clock) = &settings.clock {
        clock.give_to(&mut command);
    }
    command.arg(home.config_path()).current_dir(home.path());
    if settings.watched.is_some() {
        command.arg("--sentinel");
    }
    Process::spawn(&mut command, home.log_file(), &home.watchdog).unwrap_or_else(|error| {
        panic!(
            "failed to run `{}` ({error}): install Redis, for example with `apt-get install redis-server`, \
             or name the binary in the environment variable {}",
            binary.display(),
            RedisServer::VARIABLE
        )
    })
}

/// Waits until a replica has copied its master's data.
#[track_caller]
pub(super) fn wait_for_master(server: &RedisServer) {
    let begin = Instant::now();
    while !info(server.port()).is_ok_and(|info| field(&info, "master_link_status") == Some("up")) {
        assert!(begin.elapsed() < PATIENCE, "the replica did not connect to its master:\n{}", server.log());
        sleep(PAUSE);
    }
}

/// Connects as the testkit's own user.
pub(super) fn log_in(address: SocketAddr, timeout: Duration) -> io::Result<RawRedis> {
    let mut raw = RawRedis::connect_within(address, timeout)?;
    let answer = raw.try_command(&["AUTH", OWN_USER, OWN_USER])?;
    if answer.is_error() { Err(io::Error::other(format!("{answer:?}"))) } else { Ok(raw) }
}

/// Sends `INFO`, which works even while the server is loading.
fn info(port: u16) -> io::Result<String> {
    let answer = log_in((Ipv4Addr::LOCALHOST, port).into(), QUESTION)?.try_command(&["INFO"])?;
    if answer.is_error() {
        Err(io::Error::other(format!("{answer:?}")))
    } else {
        Ok(answer.text().to_owned())
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// Returns a sentinel's file. The sentinel fails over after a second of silence, and can do so
/// again soon.
fn sentinel(master: u16, tls: Option<&TlsFiles>, ports: Ports, directory: &Path) -> String {
    let (name, user, directory) = (RedisSentinels::MASTER, OWN_USER, quoted(&words(directory)));
    let mut text = format!("bind 127.0.0.1\nport {}\ndir {directory}\n", ports.plain);
    if let (Some(files), Some(port)) = (tls, ports.tls) {
        secure(&mut text, files, port);
    }
    let _ = write!(
        text,
        "user {user} on nopass ~* &* +@all\n\
         sentinel monitor {name} 127.0.0.1 {master} 2\n\
         sentinel auth-user {name} {user}\n\
         sentinel auth-pass {name} {user}\n\
         sentinel sentinel-user {user}\n\
         sentinel sentinel-pass {user}\n\
         sentinel down-after-milliseconds {name} 1000\n\
         sentinel failover-timeout {name} 2000\n\
         sentinel parallel-syncs {name} 2\n"
    );
    text
}

/// Enables TLS. Traffic between servers is encrypted too, and servers announce their TLS ports.
fn secure(text: &mut String, files: &TlsFiles, port: u16) {
    let mut say = |directive, value: &str| set(text, directive, value);
    say("tls-port", &port.to_string());
    say("tls-cert-file", &words(&files.certificate));
    say("tls-key-file", &words(&files.key));
    say("tls-ca-cert-file", &words(files.client_authority.as_ref().unwrap_or(&files.authority)));
    say("tls-auth-clients", if files.client_authority.is_some() { "yes" } else { "no" });
    say("tls-replication", "yes");
}

/// Writes one directive with one value.
fn set(text: &mut String, directive: &str, value: &str) {
    let _ = writeln!(text, "{directive} {}", quoted(value));
}

/// Quotes a word so the server reads the same bytes.
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text + "\""
}

fn words(path: &Path) -> String {
    path.to_str().expect("the path is UTF-8").to_owned()
}

/// Ignores an error caused by a missing file.
fn absent(removed: io::Result<()>) {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            panic!("failed to remove the data of a redis-server: {error}")
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_in_a_value_stays_in_its_line() {
        assert_eq!(quoted(""), r#""""#);
        assert_eq!(quoted("a b"), r#""a b""#);
        assert_eq!(quoted("\"\\"), r#""\"\\""#);
        assert_eq!(quoted("ä\n"), r#""\xc3\xa4\x0a""#);
    }
}
