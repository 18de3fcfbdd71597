//! The order from the runner to a process, and the protocol between them. The process reports that it is ready, reads
//! the instant at which measuring starts, and answers with one line of JSON.

use crate::{Result, contestants::Contestant, load::Load};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, BufRead, Read},
    path::PathBuf,
    process, thread,
    time::Duration,
};

/// The order to a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) contestant: Contestant,
    /// Address of the server, `redlock://a,b,c` for several servers, or empty without a server.
    pub(crate) url: String,
    /// Process ids of the servers.
    pub(crate) servers: Vec<u32>,
    /// Processors to run on; all processors if empty.
    pub(crate) cpus: Vec<usize>,
    /// Number of this process among the processes of the job.
    pub(crate) process: usize,
    /// File to which the process writes its records.
    pub(crate) records: PathBuf,
    pub(crate) job: Job,
}

/// A job, with its size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Acquire and release repeatedly.
    Cycles(Load),
    /// Count allocations on one thread.
    Allocations(Subject),
    /// Wait for a lock that stays held.
    Waiters { count: usize, window: Duration },
    /// Hold locks that the watchdog renews.
    Held { count: usize, window: Duration },
    /// Serve requests without a network.
    Requests { window: Duration },
}

/// The work during which allocations are counted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Subject {
    /// Each task makes `each` cycles on its own name.
    Cycles { tasks: usize, each: usize },
    /// Tasks start to wait for a lock that stays held.
    Waiters { count: usize, settle: Duration },
    /// Locks are acquired.
    Held { count: usize },
}

/// The measurements of a process, as JSON of the type that its job returns.
pub(crate) type Answer = serde_json::Value;

/// Reports that the process is ready, and returns the instant at which measuring starts, on the clock of
/// [`now`](crate::measure::now). From then on, the process ends when its parent ends.
pub(crate) fn wait_for_start() -> Result<u64> {
    println!("ready");
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let start = line.trim().parse()?;
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        process::exit(1);
    });
    Ok(start)
}
