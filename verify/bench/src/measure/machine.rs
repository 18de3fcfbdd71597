//! The machine and the versions on which the figures depend.

use crate::Result;
use jiff::Timestamp;
use serde::Serialize;
use std::{fs, process::Command, thread::available_parallelism};

/// The header of a report.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// Load average of the last minute before the run, which reveals other work on the machine.
    pub(crate) load_average: String,
    pub(crate) redis: String,
    pub(crate) rustc: &'static str,
    pub(crate) fred: &'static str,
    pub(crate) redis_rs: &'static str,
    /// `None` if `rslock` is not built in.
    pub(crate) rslock: Option<&'static str>,
    pub(crate) optimized: bool,
}

impl Machine {
    pub(crate) fn look() -> Result<Self> {
        let first_word = |path| Ok::<_, std::io::Error>(first_word(&fs::read_to_string(path)?));
        Ok(Self {
            date: Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            cpu: cpu()?,
            cores: available_parallelism()?.get(),
            kernel: first_word("/proc/sys/kernel/osrelease")?,
            load_average: first_word("/proc/loadavg")?,
            redis: redis()?,
            rustc: env!("LOCK_BENCH_RUSTC"),
            fred: locked("fred"),
            redis_rs: locked("redis"),
            rslock: cfg!(feature = "rslock").then(|| locked("rslock")),
            optimized: !cfg!(debug_assertions),
        })
    }
}

fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

fn cpu() -> Result<String> {
    let info = fs::read_to_string("/proc/cpuinfo")?;
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Ok(model.map_or("unknown", |(_, model)| model).to_owned())
}

/// Returns the version of the server that the measurements start.
fn redis() -> Result<String> {
    let binary =
        std::env::var_os(lock_testkit::RedisServer::VARIABLE).unwrap_or_else(|| "redis-server".into());
    let output = String::from_utf8(Command::new(binary).arg("--version").output()?.stdout)?;
    let version = output.split_whitespace().find_map(|word| word.strip_prefix("v="));
    Ok(version.unwrap_or("unknown").to_owned())
}

/// Returns the version of a dependency in the lock file of the workspace.
fn locked(name: &str) -> &'static str {
    const LOCK: &str = include_str!("../../../../Cargo.lock");
    let package = LOCK.split("[[package]]").find(|package| package.contains(&format!("name = \"{name}\"\n")));
    let version = package.and_then(|package| package.split("version = \"").nth(1)?.split('"').next());
    version.unwrap_or("unknown")
}
