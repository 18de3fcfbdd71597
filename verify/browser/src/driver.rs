//! The process of chromedriver, with its own port and a process group that ends with it.

use crate::BrowserError;
use rustix::process::{Pid, Signal, kill_process_group};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

const ATTEMPTS: usize = 5;

/// A running chromedriver. Dropping it ends it, and every Chromium that it started.
#[derive(Debug)]
pub(crate) struct Driver {
    port: u16,
    group: Option<Pid>,
    _process: Child,
    /// Profiles and temporary files of Chromium.
    home: TempDir,
}

impl Driver {
    /// Starts chromedriver on a free port. It takes a port of IPv6 first, which another process may have taken for IPv4;
    /// it then ends, and is started again.
    pub(crate) async fn start() -> Result<Self, BrowserError> {
        for _ in 1..ATTEMPTS {
            match Self::start_once().await {
                Err(BrowserError::NoPort(_)) => {}
                started => return started,
            }
        }
        Self::start_once().await
    }

    async fn start_once() -> Result<Self, BrowserError> {
        let home = tempfile::tempdir()?;
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .env("TMPDIR", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| BrowserError::Start { program: "chromedriver", source })?;
        let group = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let (mut printed, mut port) = (String::new(), None);
        if let Some(stdout) = process.stdout.take() {
            let mut lines = BufReader::new(stdout).lines();
            while let Some(line) = lines.next_line().await? {
                // "ChromeDriver was started successfully on port 34567."
                port = line
                    .rsplit_once("successfully on port ")
                    .and_then(|(_, port)| port.trim_end_matches('.').parse().ok());
                printed.push_str(&line);
                if port.is_some() {
                    // Keep reading its output, so that it never blocks on it.
                    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                    break;
                }
            }
        }
        let driver = Self { port: port.unwrap_or(0), group, _process: process, home };
        if port.is_some() { Ok(driver) } else { Err(BrowserError::NoPort(printed)) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the folder for a profile.
    pub(crate) fn profile(&self) -> String {
        self.home.path().join("profile").display().to_string()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
