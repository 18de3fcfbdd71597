//! One shop process: how it starts, stands still, goes on, and ends.

use super::{FleetError, ShopCommand};
use rustix::{
    io::retry_on_intr,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid},
};
use serde::Deserialize;
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ExitStatus},
    thread,
    time::Duration,
};
use tokio::{sync::oneshot, time::timeout};

/// How long a shop may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many lines of a log are repeated in an error.
const LAST_LINES: usize = 12;

/// A shop in a process of its own. Dropping it kills the process and waits for its end.
#[derive(Debug)]
pub struct ShopProcess {
    name: String,
    address: SocketAddr,
    child: Child,
    /// Open as long as the shop may run.
    stdin: Option<ChildStdin>,
    log: PathBuf,
}

/// What a process does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShopState {
    /// It runs.
    Running,
    /// It is stopped by SIGSTOP.
    Stopped,
    /// It has ended.
    Ended,
}

/// The first line of a shop.
#[derive(Debug, Deserialize)]
struct Ready {
    listening: SocketAddr,
}

/// Kills what is not ready yet.
struct Starting(Option<Child>);

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            bury(&mut child);
        }
    }
}

impl ShopProcess {
    /// Starts a shop and waits until it is ready. It logs to `NAME.log` in `directory`.
    ///
    /// # Errors
    /// [`FleetError`] when it does not start, or ends before.
    ///
    /// # Cancel safety
    /// Dropping this kills the process.
    pub async fn start(command: &ShopCommand, name: &str, directory: &Path) -> Result<Self, FleetError> {
        let log = directory.join(format!("{name}.log"));
        let spawn = || {
            let file = File::options().create(true).append(true).open(&log)?;
            command.build(name).stderr(file).spawn()
        };
        let child = spawn().map_err(|source| FleetError::Spawn { name: name.into(), source })?;
        let mut starting = Starting(Some(child));
        let stdout = starting.0.as_mut().and_then(|child| child.stdout.take());
        let line = first_line(stdout.expect("stdout is piped"));
        let line = timeout(PATIENCE, line).await.ok().and_then(Result::ok).unwrap_or_default();
        if line.is_empty() {
            return Err(FleetError::NotReady { name: name.into(), log: tail(&log) });
        }
        let Ok(Ready { listening }) = serde_json::from_str(&line) else {
            return Err(FleetError::NotUnderstood {
                name: name.into(),
                line,
                program: command.program.clone(),
            });
        };
        let mut child = starting.0.take().expect("nobody else takes it");
        let stdin = child.stdin.take();
        Ok(Self { name: name.into(), address: listening, child, stdin, log })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it does at the moment.
    #[must_use]
    pub fn state(&mut self) -> ShopState {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return ShopState::Ended;
        }
        // NOWAIT leaves the news there for the next question.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match retry_on_intr(|| waitid(WaitId::Pid(Pid::from_child(&self.child)), stopped)) {
            Ok(Some(_)) => ShopState::Stopped,
            Ok(None) | Err(_) => ShopState::Running,
        }
    }

    /// Stops it (SIGSTOP): connections stay and are accepted, nothing is answered.
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Kills it (SIGKILL) and returns when it is gone.
    pub fn kill(&mut self) {
        bury(&mut self.child);
    }

    /// Asks it to end: it continues if it is stopped, gets SIGTERM, and its stdin ends.
    pub fn ask_to_end(&mut self) {
        self.resume();
        self.signal(Signal::TERM);
        self.stdin.take();
    }

    /// Its end, if it has come.
    #[must_use]
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The end of its log.
    #[must_use]
    pub fn log(&self) -> String {
        tail(&self.log)
    }

    fn signal(&mut self, signal: Signal) {
        // The id of a process that was waited for may be another's.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }
}

impl Drop for ShopProcess {
    fn drop(&mut self) {
        bury(&mut self.child);
    }
}

fn bury(child: &mut Child) {
    // An error means that it has ended. SIGKILL works on stopped processes too, so the wait is short.
    let _ = child.kill();
    let _ = child.wait();
}

/// The first line. A thread reads the rest as well, so that the shop never waits for a reader; it ends with the shop.
fn first_line(stdout: impl io::Read + Send + 'static) -> oneshot::Receiver<String> {
    let (send, receive) = oneshot::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let _ = send.send(lines.next().unwrap_or_default());
        lines.for_each(drop);
    });
    receive
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
