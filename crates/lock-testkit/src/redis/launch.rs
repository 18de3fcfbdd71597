//! The start of a server: it has started once this very process answers and has loaded its data.

use super::{
    RawRedis, RedisServer, config,
    config::{Ports, Settings},
    home::Home,
    process::Process,
};
use crate::ports;
use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    thread::sleep,
    time::{Duration, Instant},
};

/// The time limit of a start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time limit of each of these requests.
const QUESTION: Duration = Duration::from_secs(1);

const PAUSE: Duration = Duration::from_millis(3);

/// The `INFO` of a server that is ready.
struct Ready {
    process: Process,
    version: String,
}

/// Starts a server for the first time, on free ports.
#[track_caller]
pub(super) fn first(settings: Settings) -> RedisServer {
    let home = Arc::new(Home::new());
    let choose = || Ports {
        plain: settings.port.unwrap_or_else(ports::free),
        tls: settings.tls.as_ref().map(|_| ports::free()),
    };
    let (ports, Ready { process, version }) = start(&home, &settings, choose);
    RedisServer { process: Mutex::new(Some(process)), home, settings, ports, version }
}

/// Starts it again, on the same ports.
#[track_caller]
pub(super) fn again(server: &RedisServer) -> Process {
    start(&server.home, &server.settings, || server.ports).1.process
}

/// Starts the server. Another program may take a port between the choice and its use. The next choice is then tried,
/// or the same one until the port is free again.
#[track_caller]
fn start(home: &Arc<Home>, settings: &Settings, choose: impl Fn() -> Ports) -> (Ports, Ready) {
    let begin = Instant::now();
    loop {
        let ports = choose();
        fs::write(home.config_path(), settings.text(ports, home.path()))
            .expect("a file can be written in a directory of our own");
        match attempt(home, settings, ports) {
            Ok(ready) => return (ports, ready),
            Err(log) if log.contains("Address already in use") && begin.elapsed() < PATIENCE => {
                sleep(Duration::from_millis(50));
            }
            Err(log) => panic!("redis-server did not start on port {}; it said:\n{log}", ports.plain),
        }
    }
}

/// Tries one start. A failure returns the output of the process.
fn attempt(home: &Arc<Home>, settings: &Settings, ports: Ports) -> Result<Ready, String> {
    let before = home.log().len();
    let said = || home.log().split_off(before);
    let mut process = Process::spawn(home.clone(), settings);
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if process.has_ended() {
            return Err(said());
        }
        if let Ok(info) = info(ports.plain)
            // Another server may have taken the port and answer before ours fails.
            && field(&info, "process_id") == Some(process.id().to_string().as_str())
            // A sentinel loads no data.
            && field(&info, "loading").unwrap_or("0") == "0"
        {
            let version = field(&info, "redis_version").unwrap_or_default().to_owned();
            return Ok(Ready { process, version });
        }
        sleep(PAUSE);
    }
    Err(said() + "\n(it did not answer after that)")
}

/// Waits until a replica has copied its master's data.
#[track_caller]
pub(super) fn wait_for_master(server: &RedisServer) {
    let begin = Instant::now();
    while !info(server.port()).is_ok_and(|info| field(&info, "master_link_status") == Some("up")) {
        assert!(begin.elapsed() < PATIENCE, "the replica has not reached its master:\n{}", server.log());
        sleep(PAUSE);
    }
}

/// Connects as the testkit's own user.
pub(super) fn log_in(address: SocketAddr, timeout: Duration) -> io::Result<RawRedis> {
    let mut raw = RawRedis::connect_within(address, timeout)?;
    let answer = raw.try_command(&["AUTH", config::OWN_USER, config::OWN_USER])?;
    if answer.is_error() { Err(io::Error::other(format!("{answer:?}"))) } else { Ok(raw) }
}

/// Sends `INFO`, which is answered even while a server is loading.
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
