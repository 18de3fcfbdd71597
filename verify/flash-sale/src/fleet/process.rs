//! One shop process: its command, starting, pausing, resuming and ending it.

use rustix::{
    io::retry_on_intr,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid},
};
use serde::Deserialize;
use std::{
    env,
    ffi::OsString,
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};
use tokio::{sync::oneshot, time::timeout};

/// Time limit for a shop to become ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of log lines that an error quotes.
const LAST_LINES: usize = 12;

/// The command that starts a shop. The program prints one line of JSON with its address when it is
/// ready, and exits when its stdin ends.
#[derive(Clone)]
pub struct ShopCommand {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments, the same for all shops.
    pub arguments: Vec<OsString>,
    /// Environment variables with values that other users must not see in process lists, such as addresses with
    /// passwords.
    pub secrets: Vec<(String, String)>,
}

impl ShopCommand {
    /// Environment variable for the address of the lock store. Unlike command lines, variables are not visible to others.
    pub const LOCKS: &str = "SHOP_LOCKS";
    /// Environment variable for the address of the shops' database.
    pub const DATABASE: &str = "SHOP_DATABASE";
    /// Environment variable for the address of the payment provider's database.
    pub const PAYMENTS: &str = "SHOP_PAYMENTS";

    /// Returns a command that runs this program with `arguments`.
    ///
    /// # Errors
    /// Returns an error if the path of this program's executable is unknown.
    pub fn this_program(arguments: impl IntoIterator<Item = OsString>) -> io::Result<Self> {
        Ok(Self {
            program: env::current_exe()?,
            arguments: arguments.into_iter().collect(),
            secrets: Vec::new(),
        })
    }

    fn build(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("--shop").arg(name);
        command.envs(self.secrets.iter().map(|(name, value)| (name, value)));
        // Ctrl-C on a terminal is sent to the whole process group. In a separate group, the shops
        // do not receive it, and this process can shut them down gracefully.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

impl fmt::Debug for ShopCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShopCommand").field("program", &self.program).finish_non_exhaustive()
    }
}

/// A shop in a separate process. Dropping this kills the process and waits for it to exit.
#[derive(Debug)]
pub struct ShopProcess {
    name: String,
    address: SocketAddr,
    operators: Option<SocketAddr>,
    child: Child,
    /// Standard input of the shop. The shop exits when this is closed.
    stdin: Option<ChildStdin>,
    log: PathBuf,
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShopState {
    /// The process is running.
    Running,
    /// The process is suspended by SIGSTOP.
    Stopped,
    /// The process has ended.
    Ended,
}

/// The first line that a shop prints.
#[derive(Debug, Deserialize)]
struct Ready {
    listening: SocketAddr,
    operators: Option<SocketAddr>,
}

/// A process that is not ready yet. Dropping this kills it.
struct Starting(Option<Child>);

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            bury(&mut child);
        }
    }
}

impl ShopProcess {
    /// Starts a shop and waits until it is ready. The shop logs to `NAME.log` in `directory`.
    ///
    /// # Errors
    /// Returns [`FleetError`] if the shop does not start, or is not ready within 60 s.
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
        let Ok(Ready { listening, operators }) = serde_json::from_str(&line) else {
            return Err(FleetError::NotUnderstood {
                name: name.into(),
                line,
                program: command.program.clone(),
            });
        };
        let mut child = starting.0.take().expect("the child is taken only once");
        let stdin = child.stdin.take();
        Ok(Self { name: name.into(), address: listening, operators, child, stdin, log })
    }

    /// Returns the shop's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address on which the shop listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address for operators, if the shop has printed one.
    #[must_use]
    pub fn operators(&self) -> Option<SocketAddr> {
        self.operators
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the state of the process.
    #[must_use]
    pub fn state(&mut self) -> ShopState {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return ShopState::Ended;
        }
        // NOWAIT keeps the state change available for the next call.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match retry_on_intr(|| waitid(WaitId::Pid(Pid::from_child(&self.child)), stopped)) {
            Ok(Some(_)) => ShopState::Stopped,
            Ok(None) | Err(_) => ShopState::Running,
        }
    }

    /// Suspends the process (SIGSTOP). Its connections stay open and the kernel accepts new ones,
    /// but requests get no response.
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the process (SIGCONT).
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) {
        bury(&mut self.child);
    }

    /// Requests a shutdown: resumes a suspended process, sends SIGTERM, and closes its stdin.
    pub fn ask_to_end(&mut self) {
        self.resume();
        self.signal(Signal::TERM);
        self.stdin.take();
    }

    /// Returns the exit status if the process has ended.
    #[must_use]
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns the last lines of the log.
    #[must_use]
    pub fn log(&self) -> String {
        tail(&self.log)
    }

    fn signal(&mut self, signal: Signal) {
        // The id of a reaped process may be reused.
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
    // An error means that the process has exited. SIGKILL also ends suspended processes, so the
    // wait is short.
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the first line. A thread reads the rest, so the shop never blocks on a full pipe. The
/// thread ends with the shop.
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

/// A failure of a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The process could not be started.
    #[error("could not start {name}")]
    Spawn {
        /// Name of the shop.
        name: String,
        /// Underlying error.
        source: io::Error,
    },
    /// The process exited before it was ready, or was not ready within 60 s.
    #[error("{name} did not become ready; its log ends with:\n{log}")]
    NotReady {
        /// Name of the shop.
        name: String,
        /// The end of the process's log.
        log: String,
    },
    /// The process printed something other than its address.
    #[error("{name} printed `{line}` instead of an address: check that {program} is the same \
        version as this program", program = program.display())]
    NotUnderstood {
        /// Name of the shop.
        name: String,
        /// First line that the process printed.
        line: String,
        /// Path of the program.
        program: PathBuf,
    },
    /// The process did not exit successfully.
    #[error("{name} did not exit successfully ({status}); its log ends with:\n{log}")]
    Ended {
        /// Name of the shop.
        name: String,
        /// Exit status.
        status: ExitStatus,
        /// The end of the process's log.
        log: String,
    },
}
