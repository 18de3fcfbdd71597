//! The order from the runner to a process, and the protocol between them. The process reports that it is ready, reads
//! the instant at which measuring starts, and answers with one line of JSON. Its side is in [`jobs`](crate::jobs).

use crate::{Result, contestants::Contestant, load::Load};
use serde::{Deserialize, Serialize};
use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{self, Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

/// The order to a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) contestant: Contestant,
    /// Address of the server, `redlock://a,b,c` for several servers, `postgres://…`, `sqlite:path`, or empty without a store.
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
/// [`now`](crate::machine::now). From then on, the process ends when its parent ends.
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

/// A process that executes an order. It is killed when this value is dropped.
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts this program as a child process.
    pub(crate) fn start(order: &Order) -> Result<Self> {
        let program = env::current_exe()?;
        let mut child = Command::new(program)
            .args(["child", &serde_json::to_string(order)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a child has no pipes".into());
        };
        Ok(Self { child, orders, answers: BufReader::new(answers) })
    }

    /// Waits until the process is ready.
    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        match self.line()?.as_str() {
            "ready" => Ok(()),
            other => Err(format!("a child printed {other:?} before it was ready").into()),
        }
    }

    /// Sends the instant at which measuring starts to the process.
    pub(crate) fn start_at(&mut self, instant: u64) -> Result<()> {
        Ok(writeln!(self.orders, "{instant}")?)
    }

    /// Waits for the answer.
    pub(crate) fn answer(&mut self) -> Result<Answer> {
        Ok(serde_json::from_str(&self.line()?)?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("a child ended without an answer; its error is above".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
