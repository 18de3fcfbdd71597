//! The processor time and the context switches of a process, summed over its threads as counted by Linux.

use crate::Result;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    ops::{Add, Sub},
    path::Path,
};

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
