//! A process that does one job for the runner: it gets an order as an argument, says that it is ready, waits for the
//! instant at which measuring starts, and answers with one line of JSON.

use crate::{
    Result,
    contestants::{self, Contestant, Locks},
    jobs::{self, Job},
    measure::pinning,
};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, BufRead, Read},
    path::PathBuf,
    process, thread,
};

/// All that a process has to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) contestant: Contestant,
    /// Empty for contestants without a server.
    pub(crate) url: String,
    /// The server's process.
    pub(crate) server: Option<u32>,
    /// The processor to run on; all of them if absent.
    pub(crate) cpu: Option<usize>,
    /// The number of this process among those of the job.
    pub(crate) process: usize,
    /// The file for records.
    pub(crate) records: PathBuf,
    pub(crate) job: Job,
}

impl Order {
    /// Obeys the order: the whole life of the process.
    pub(crate) fn execute(self) -> Result<()> {
        if let Some(cpu) = self.cpu {
            pinning::pin(process::id(), cpu)?;
        }
        let answer = match self.contestant {
            Contestant::Fred => self.with::<contestants::Fred>(),
            Contestant::FredOtel => self.with::<contestants::FredOtel>(),
            Contestant::Memory => self.with::<contestants::Memory>(),
            Contestant::Hash => self.with::<contestants::Hash>(),
            Contestant::Queue => self.with::<contestants::Queue>(),
            Contestant::HandOff => self.with::<contestants::HandOff>(),
            Contestant::SetNx => self.with::<contestants::SetNx>(),
            #[cfg(feature = "rslock")]
            Contestant::Rslock => self.with::<contestants::Rslock>(),
            #[cfg(not(feature = "rslock"))]
            Contestant::Rslock => Err("the feature `rslock` is off".into()),
            Contestant::TokioMutex => self.with::<contestants::TokioMutex>(),
            Contestant::Layer | Contestant::Handler => self.requests(),
        };
        println!("{}", serde_json::to_string(&answer?)?);
        Ok(())
    }

    fn with<L: Locks>(&self) -> Result<Answer> {
        match &self.job {
            Job::Cycles(load) => jobs::cycles::run::<L>(self, load),
            Job::Allocations(subject) => jobs::allocations::run::<L>(self, subject),
            Job::Waiters { count, window } => jobs::waiters::run::<L>(self, *count, *window),
            Job::Held { count, window } => jobs::held::run::<L>(self, *count, *window),
            Job::Requests { .. } => self.requests(),
        }
    }

    fn requests(&self) -> Result<Answer> {
        match self.job {
            Job::Requests { window } => jobs::requests::run(self, window),
            _ => Err(format!("{} is no lock", self.contestant.label()).into()),
        }
    }
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
