//! One shop in a process of its own.

use super::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
};

/// The settings that differ between tests. Durations are long where a test does not want their end.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The address to listen on.
    pub(crate) listen: SocketAddr,
    /// The lease of the locks.
    pub(crate) lease_ms: u64,
    /// The time between the commit of a charge and its answer.
    pub(crate) payment_delay_ms: u64,
    /// The age at which the job settles an open intent.
    pub(crate) settle_after_s: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 0).into(),
            lease_ms: 1_000,
            payment_delay_ms: 0,
            settle_after_s: 3_600,
        }
    }
}

/// Kills the shop of a killed test process: the end of its input is the end of that process.
const WATCHDOG: &str = r#"while read -r _; do :; done; kill -9 "$1""#;

/// A running shop. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) address: SocketAddr,
    child: Child,
    watchdog: Child,
    log: PathBuf,
}

impl Shop {
    /// Starts a shop with these variables, and waits until it listens.
    pub(crate) fn start(name: &str, directory: &Path, settings: &Settings, servers: &[(&str, &str)]) -> Self {
        let log = directory.join(format!("{name}.log"));
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_lock-inventory-demo"))
            .arg("serve")
            .env("SHOP_NAME", name)
            .env("SHOP_LISTEN", settings.listen.to_string())
            .env("SHOP_CONSOLE", "127.0.0.1:0")
            .env("SHOP_LEASE_MS", settings.lease_ms.to_string())
            .env("SHOP_PAYMENT_DELAY_MS", settings.payment_delay_ms.to_string())
            .env("SHOP_SETTLE_AFTER_S", settings.settle_after_s.to_string())
            .envs(servers.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", &child.id().to_string()])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let line = first_line(child.stdout.take().unwrap());
        let mut shop = Self { address: ([127, 0, 0, 1], 0).into(), child, watchdog, log };
        let line = line.recv_timeout(PATIENCE).unwrap_or_default();
        let ready: Option<Value> = serde_json::from_str(&line).ok();
        let listening = ready.as_ref().and_then(|ready| ready["listening"].as_str()?.parse().ok());
        shop.address =
            listening.unwrap_or_else(|| panic!("{name} printed `{line}`; its log:\n{}", shop.log()));
        shop
    }

    /// Suspends the process.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the process.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.dismiss_watchdog();
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends the process as an orchestrator does.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.dismiss_watchdog();
        self.child.wait().unwrap()
    }

    /// Returns everything that the shops of this name have logged.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Ends the watchdog before the process is reaped, whose id may then be reused.
    fn dismiss_watchdog(&mut self) {
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Receives the first line. The thread reads on, so that the shop never waits for a reader.
fn first_line(stdout: impl std::io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let _ = send.send(lines.next().unwrap_or_default());
        lines.for_each(drop);
    });
    receive
}
