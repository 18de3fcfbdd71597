//! The start of a server. A server has started once its process responds and has loaded its data.

use super::{
    RawRedis, RedisServer, config,
    config::{Ports, Settings},
    home::Home,
};
use crate::{ports, process::Process};
use std::{
    env,
    ffi::OsString,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    process::Command,
    sync::Mutex,
    thread::sleep,
    time::{Duration, Instant},
};

/// The time limit for a start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time limit for each request during the start.
const QUESTION: Duration = Duration::from_secs(1);

const PAUSE: Duration = Duration::from_millis(3);

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
        plain: settings.port.unwrap_or_else(ports::free),
        tls: settings.tls.as_ref().map(|_| ports::free()),
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
    let answer = raw.try_command(&["AUTH", config::OWN_USER, config::OWN_USER])?;
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
