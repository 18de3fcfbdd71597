//! Binds processes to processors.

use crate::Result;
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use std::fs;

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
