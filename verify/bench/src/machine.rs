//! Readings of the machine: the clock that all processes share, the processor time and memory of a process, the versions on
//! which figures depend; and the binding of processes to processors.

use crate::Result;
use jiff::Timestamp;
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
    time::{ClockId, clock_gettime},
};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    ops::{Add, Sub},
    path::Path,
    process::Command,
    thread::available_parallelism,
    time::Duration,
};

/// Reads the monotonic clock, which all processes of the machine share, in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Both parts of a monotonic time are non-negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Converts a duration to nanoseconds, the unit of [`now`].
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Processor time and context switches up to one moment.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Processor time in nanoseconds. Linux adds a running thread's time once per tick, so short windows are inexact.
    pub(crate) cpu: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
}

impl Usage {
    /// Returns the sum over the current threads of the process.
    pub(crate) fn of(process: u32) -> Result<Self> {
        let mut sum = Self::default();
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            match sum.add_thread(&thread?.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {} // the thread has just ended
                added => added?,
            }
        }
        Ok(sum)
    }

    fn add_thread(&mut self, thread: &Path) -> io::Result<()> {
        let schedstat = fs::read_to_string(thread.join("schedstat"))?;
        let status = fs::read_to_string(thread.join("status"))?;
        self.cpu += number(schedstat.split(' ').next());
        self.voluntary_switches += field(&status, "voluntary_ctxt_switches:");
        self.involuntary_switches += field(&status, "nonvoluntary_ctxt_switches:");
        Ok(())
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
        }
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }
}

/// Returns the resident memory of this process.
pub(crate) fn resident_bytes() -> Result<u64> {
    Ok(field(&fs::read_to_string("/proc/self/status")?, "VmRSS:") * 1024)
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    number(line.and_then(|line| line.split_whitespace().next()))
}

fn number(text: Option<&str>) -> u64 {
    text.and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}

/// The processors of a pinned measurement.
#[derive(Debug)]
pub(crate) struct Split {
    pub(crate) server: usize,
    /// Processors for the clients; at least one.
    pub(crate) clients: Vec<usize>,
}

impl Split {
    /// Chooses the first processor that this process may use for the server, and the others for the clients. If there
    /// is only one, server and clients share it.
    pub(crate) fn choose() -> Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let server = cpus.next().ok_or("no processor is available")?;
        let mut clients: Vec<_> = cpus.collect();
        if clients.is_empty() {
            clients.push(server);
        }
        Ok(Self { server, clients })
    }
}

/// Pins every current thread of the process. Threads that these start later inherit the setting.
pub(crate) fn pin(process: u32, cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let id = thread?.file_name().to_string_lossy().parse()?;
        sched_setaffinity(Pid::from_raw(id), &set)?;
    }
    Ok(())
}

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
    const LOCK: &str = include_str!("../../../Cargo.lock");
    let package = LOCK.split("[[package]]").find(|package| package.contains(&format!("name = \"{name}\"\n")));
    let version = package.and_then(|package| package.split("version = \"").nth(1)?.split('"').next());
    version.unwrap_or("unknown")
}
