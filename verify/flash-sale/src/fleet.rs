//! The shop processes of a run, which are also the servers behind the balancer. All of them end with the run:
//!
//! | end | effect |
//! | --- | --- |
//! | [`Fleet::stop`] | every shop receives SIGTERM, releases its locks and exits; after 20 s it is killed |
//! | drop (an error, Ctrl-C) | the same, but within 2 s; the drop blocks its thread |
//! | SIGKILL of this process | the shops exit when their stdin ends; watchdog shells stop the servers and remove the directories |
//!
//! A shop stopped with SIGSTOP is resumed first, or killed. Shops are in separate process groups,
//! so Ctrl-C on a terminal only reaches this process.

use crate::balancer::Servers;
use futures_util::future::try_join_all;
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
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

/// Time limit for shops to release their locks.
const ORDERLY: Duration = Duration::from_secs(20);
/// Time limit for shops to release their locks if the run is aborted.
const HURRIED: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(2);
/// Time limit for a shop to become ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of log lines that an error quotes.
const LAST_LINES: usize = 12;

/// Shop processes, starting with `shop-1`. Dropping this stops all of them.
#[derive(Debug)]
pub struct Fleet {
    commands: Vec<ShopCommand>,
    directory: PathBuf,
    servers: Servers,
    shops: Vec<Mutex<ShopProcess>>,
}

/// The status of a shop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShopStatus {
    /// Shop name.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// Address on which the shop listens.
    pub address: SocketAddr,
    /// Address for operators, if the shop has one.
    pub operators: Option<SocketAddr>,
    /// State of the process.
    pub state: ShopState,
}

impl Fleet {
    /// Starts one shop per command, concurrently, waits until all are ready, and adds them to `servers`. Their logs
    /// are in `directory`.
    ///
    /// # Errors
    /// If a shop does not start, returns its [`FleetError`] and stops the others.
    ///
    /// # Cancel safety
    /// Dropping this stops all shops that were started.
    pub async fn start(
        commands: Vec<ShopCommand>,
        servers: Servers,
        directory: &Path,
    ) -> Result<Self, FleetError> {
        let names: Vec<_> = (1..=commands.len()).map(|number| format!("shop-{number}")).collect();
        let starts = names.iter().zip(&commands);
        let starts = starts.map(|(name, command)| ShopProcess::start(command, name, directory));
        let shops = try_join_all(starts).await?;
        for shop in &shops {
            servers.set(shop.name().to_owned(), shop.address());
        }
        let shops = shops.into_iter().map(Mutex::new).collect();
        Ok(Self { commands, directory: directory.to_owned(), servers, shops })
    }

    /// Returns the number of shops, including suspended and dead ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shops.len()
    }

    /// Returns `true` if there is no shop.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shops.is_empty()
    }

    /// Returns the status of every shop.
    #[must_use]
    pub fn statuses(&self) -> Vec<ShopStatus> {
        (0..self.shops.len()).map(|index| self.status(index)).collect()
    }

    /// Returns the status of the shop with this index. Indices start at 0.
    ///
    /// # Panics
    /// Panics if there is no such shop, as do all methods with an index.
    #[must_use]
    pub fn status(&self, index: usize) -> ShopStatus {
        self.with(index, |shop| ShopStatus {
            name: shop.name().to_owned(),
            pid: shop.pid(),
            address: shop.address(),
            operators: shop.operators(),
            state: shop.state(),
        })
    }

    /// Suspends a shop (SIGSTOP).
    pub fn pause(&self, index: usize) {
        self.with(index, ShopProcess::pause);
    }

    /// Resumes a suspended shop (SIGCONT).
    pub fn resume(&self, index: usize) {
        self.with(index, ShopProcess::resume);
    }

    /// Kills a shop (SIGKILL) and waits until it is gone.
    pub fn kill(&self, index: usize) {
        self.with(index, ShopProcess::kill);
    }

    /// Waits until a shop is suspended or has ended, for at most `limit`, and returns its state.
    pub async fn stopped(&self, index: usize, limit: Duration) -> ShopState {
        let begin = Instant::now();
        loop {
            let state = self.with(index, ShopProcess::state);
            if state != ShopState::Running || begin.elapsed() >= limit {
                return state;
            }
            sleep(LOOK).await;
        }
    }

    /// Starts a shop again at a new address. Kills it first if it is still running.
    ///
    /// # Errors
    /// Returns [`FleetError`] if the shop does not start.
    ///
    /// # Cancel safety
    /// Dropping this leaves the shop stopped.
    pub async fn revive(&self, index: usize) -> Result<(), FleetError> {
        self.kill(index);
        let name = self.with(index, |shop| shop.name().to_owned());
        let shop = ShopProcess::start(&self.commands[index], &name, &self.directory).await?;
        self.servers.set(name, shop.address());
        self.with(index, |old| *old = shop);
        Ok(())
    }

    /// Shuts down all shops gracefully and waits for their exit.
    ///
    /// # Errors
    /// Returns the [`FleetError`] of the first shop that did not exit successfully within 20 s.
    ///
    /// # Cancel safety
    /// Dropping this gives the shops 2 s to exit.
    pub async fn stop(self) -> Result<(), FleetError> {
        let running: Vec<_> = (0..self.shops.len())
            .filter(|index| self.with(*index, ShopProcess::state) != ShopState::Ended)
            .collect();
        self.ask_to_end();
        let begin = Instant::now();
        while !self.have_ended() && begin.elapsed() < ORDERLY {
            sleep(LOOK).await;
        }
        for index in running {
            self.with(index, |shop| {
                if shop.ended().is_none() {
                    shop.kill();
                }
                match shop.ended() {
                    Some(status) if !status.success() => {
                        Err(FleetError::Ended { name: shop.name().to_owned(), status, log: shop.log() })
                    }
                    _ => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    fn ask_to_end(&self) {
        (0..self.shops.len()).for_each(|index| self.with(index, ShopProcess::ask_to_end));
    }

    fn have_ended(&self) -> bool {
        (0..self.shops.len()).all(|index| self.with(index, |shop| shop.ended().is_some()))
    }

    fn with<R>(&self, index: usize, f: impl FnOnce(&mut ShopProcess) -> R) -> R {
        f(&mut self.shops[index].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Fleet {
    /// Stops the shops. Blocks the thread, usually for a few milliseconds, because the caller may
    /// then remove the database or exit.
    fn drop(&mut self) {
        self.ask_to_end();
        let begin = Instant::now();
        while !self.have_ended() && begin.elapsed() < HURRIED {
            thread::sleep(LOOK);
        }
    }
}

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
