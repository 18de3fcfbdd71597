//! The order that the runner gives to a process, and how the process answers: it says that it is ready, waits for the instant
//! at which measuring starts, and answers with one line of JSON.

use crate::{Result, contestants::Contestant, load::Load};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, BufRead, Read},
    path::PathBuf,
    process, thread,
    time::Duration,
};

/// All that a process has to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) contestant: Contestant,
    /// That of the server, `redlock://a,b,c` for several, or empty.
    pub(crate) url: String,
    /// The processes of the servers.
    pub(crate) servers: Vec<u32>,
    /// The processors to run on; all of them if empty.
    pub(crate) cpus: Vec<usize>,
    /// The number of this process among those of the job.
    pub(crate) process: usize,
    /// The file for records.
    pub(crate) records: PathBuf,
    pub(crate) job: Job,
}

/// A job, with its size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Acquire and release, again and again.
    Cycles(Load),
    /// Count allocations, on one thread.
    Allocations(Subject),
    /// Wait for a lock that stays held.
    Waiters { count: usize, window: Duration },
    /// Hold locks, which the watchdog renews.
    Held { count: usize, window: Duration },
    /// Answer requests, without a server.
    Requests { window: Duration },
}

/// What is done while allocations are counted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Subject {
    /// So many tasks, each with a name of its own, make so many cycles each.
    Cycles { tasks: usize, each: usize },
    /// So many tasks begin to wait for a lock that stays held.
    Waiters { count: usize, settle: Duration },
    /// So many locks are acquired.
    Held { count: usize },
}

/// The answer of a process: what it measured, by the job's own names.
pub(crate) type Answer = serde_json::Value;

/// Says that the process is ready, and returns the instant at which measuring starts, in the time of
/// [`now`](crate::measure::now). From then on the process ends with its parent.
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
