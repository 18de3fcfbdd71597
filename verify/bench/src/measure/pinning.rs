//! Binds processes to processors.

use crate::Result;
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use std::fs;

/// The processors of a pinned measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) server: usize,
    pub(crate) client: usize,
}

impl Pair {
    /// Chooses the first two processors that this process may use; both are the same if there is one.
    pub(crate) fn choose() -> Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let server = cpus.next().ok_or("no processor may be used")?;
        Ok(Self { server, client: cpus.next().unwrap_or(server) })
    }
}

/// Binds every thread that the process has now, and those that they start later.
pub(crate) fn pin(process: u32, cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let id = thread?.file_name().to_string_lossy().parse()?;
        sched_setaffinity(Pid::from_raw(id), &set)?;
    }
    Ok(())
}
