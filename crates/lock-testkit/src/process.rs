//! The processes of servers: their start, pauses and end, and ports that other programs are unlikely to take.
//!
//! A shell ends the server of a killed test process.

use lock_core::backend::ProcessId;
use rustix::{
    io::retry_on_intr,
    process::{Pid, Signal, WaitId, WaitIdOptions, geteuid, kill_process_group, waitid},
};
use std::{
    fs::{self, File},
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::sleep,
    time::{Duration, Instant},
};

/// The first port, below the ephemeral range. With an ephemeral port, a client that retries a
/// stopped server could be assigned the server's own port and connect to itself. A late client
/// could also reach another test's proxy.
const FIRST_PORT: u64 = 10_000;
const PORTS: u64 = 22_000;

/// The time limit for a change of servers: a start, a stop, a dump, a failover.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the ids of the user and the group that run a server which refuses to run as root: of the first of these users
/// that exists if the caller is root, otherwise `None`.
pub(crate) fn unprivileged(users: &[&str]) -> io::Result<Option<(u32, u32)>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd")?;
    let ids = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let user = users.iter().find_map(|name| ids(name));
    let missing =
        || io::Error::other(format!("the server refuses to run as root: create a `{}` user", users[0]));
    user.map(Some).ok_or_else(missing)
}

/// A server process. It is killed and reaped when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    watchdog: Arc<Watchdog>,
}

impl Process {
    /// Starts the command, whose output goes to the log, and has the watchdog watch it.
    pub(crate) fn spawn(command: &mut Command, log: File, watchdog: &Arc<Watchdog>) -> io::Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            // A separate group: signals to the tests' group do not reach the server, and ours also
            // reach the children of a server that leaves them in its group.
            .process_group(0)
            .spawn()?;
        watchdog.watch(Some(child.id()));
        Ok(Self { child, watchdog: watchdog.clone() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process has exited.
    pub(crate) fn has_ended(&mut self) -> bool {
        let ended = matches!(self.child.try_wait(), Ok(Some(_)));
        if ended {
            self.watchdog.watch(None);
        }
        ended
    }

    /// Suspends the process, and waits until it is suspended.
    pub(crate) fn pause(&mut self) {
        self.signal(Signal::STOP);
        // `kill` returns before the signal takes effect. `NOWAIT` leaves the state reportable,
        // which allows pausing twice.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        retry_on_intr(|| waitid(WaitId::Pid(Pid::from_child(&self.child)), stopped))
            .expect("failed to pause the server");
    }

    pub(crate) fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Sends the signal and waits. Dropping the value kills a process that is still running.
    pub(crate) fn end(&mut self, signal: Signal) {
        self.resume();
        self.signal(signal);
        let begin = Instant::now();
        while !self.has_ended() && begin.elapsed() < PATIENCE {
            sleep(Duration::from_millis(2));
        }
    }

    fn signal(&mut self, signal: Signal) {
        // The id of a reaped process may be reused.
        if !self.has_ended() {
            let _ = kill_process_group(Pid::from_child(&self.child), signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        self.watchdog.watch(None);
    }
}

/// Reads process ids until the test process closes the pipe or exits. It then signals the last
/// process's group, unless the id is empty, and removes the directory.
///
/// A failed removal is repeated, because a process that is ending may still write to the directory.
const SCRIPT: &str = r#"
    pid=
    while read -r line; do pid=$line; done
    if [ -n "$pid" ]; then kill "-$2" "-$pid"; fi
    rm -rf "$1" || { sleep 1; rm -rf "$1"; }
"#;

#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    /// Starts the shell. `signal` is the name of the signal that ends the server, such as `KILL`.
    pub(crate) fn new(directory: &Path, signal: &str) -> Self {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "watchdog"])
            .arg(directory)
            .arg(signal)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals to the tests' group, from a terminal or from `timeout`, must not end the watchdog.
            .process_group(0)
            .spawn()
            .expect("failed to start `sh`");
        Self { shell }
    }

    /// Sets the process to end.
    ///
    /// Pass `None` after a process was reaped, because its id may be reused.
    pub(crate) fn watch(&self, pid: Option<u32>) {
        let line = pid.map(|pid| pid.to_string()).unwrap_or_default() + "\n";
        let mut pipe = self.shell.stdin.as_ref().expect("the pipe exists until the watchdog is dropped");
        // A missing watchdog must not fail the test.
        let _ = pipe.write_all(line.as_bytes());
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Waiting closes the pipe first.
        let _ = self.shell.wait();
    }
}

/// Returns a socket that listens on a free port.
pub(crate) fn listen() -> TcpListener {
    // Each process starts at a random port and counts up, so concurrent test processes rarely
    // collide.
    static NEXT: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(ProcessId::random().as_uuid().as_u64_pair().1 % PORTS));
    (0..PORTS)
        .map(|_| FIRST_PORT + NEXT.fetch_add(1, Relaxed) % PORTS)
        .filter_map(|port| u16::try_from(port).ok())
        .find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .expect("no free port")
}

/// Returns an unused port. Another program can take it before it is used.
pub(crate) fn free_port() -> u16 {
    unused_address().port()
}

/// Returns a local address without a listener, for connections that must fail.
///
/// The kernel does not assign its port to outgoing connections, and `lock-testkit` does not reuse
/// it soon.
///
/// # Panics
/// Panics if this machine has no free port.
#[must_use]
pub fn unused_address() -> SocketAddr {
    listen().local_addr().expect("a bound socket has an address")
}
