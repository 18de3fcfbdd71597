//! The servers and processes of one measurement.

use super::worker::Worker;
use crate::{
    Result,
    contestants::Contestant,
    measure::{Section, nanos, now, pinning, read},
    order::{Answer, Job, Order},
};
use lock_testkit::RedisServer;
use serde::de::DeserializeOwned;
use std::{path::PathBuf, time::Duration};
use tempfile::TempDir;

/// The servers of one measurement. They end when the session is dropped.
pub(crate) struct Session {
    contestant: Contestant,
    servers: Vec<RedisServer>,
    client_cpus: Vec<usize>,
    records: TempDir,
}

/// The answers of a job's processes.
pub(crate) struct Outcome {
    /// Instant at which measuring started.
    pub(crate) start: u64,
    answers: Vec<Answer>,
}

/// The assignment of processors to servers and clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// One processor for the servers and one for all clients.
    Pinned,
    /// One processor for the servers and all others for the clients.
    Apart,
    /// All processors for both.
    Free,
}

impl Session {
    /// Starts as many fresh servers as the contestant needs.
    pub(crate) fn open(contestant: Contestant, placement: Placement) -> Result<Self> {
        let servers: Vec<_> = (0..contestant.servers()).map(|_| RedisServer::start()).collect();
        let mut client_cpus = Vec::new();
        if placement != Placement::Free {
            let split = pinning::Split::choose()?;
            client_cpus = split.clients;
            if placement == Placement::Pinned {
                client_cpus.truncate(1);
            }
            for server in servers.iter().filter_map(RedisServer::pid) {
                pinning::pin(server, &[split.server])?;
            }
        }
        Ok(Self { contestant, servers, client_cpus, records: TempDir::new()? })
    }

    /// Runs the job in this many processes. All of them start measuring at the same instant, after this warm-up time.
    pub(crate) fn run(&self, job: &Job, processes: usize, warm_up: Duration) -> Result<Outcome> {
        let start_worker = |process| {
            Worker::start(&Order {
                contestant: self.contestant,
                url: self.url(),
                servers: self.servers.iter().filter_map(RedisServer::pid).collect(),
                cpus: self.client_cpus.clone(),
                process,
                records: self.file(process),
                job: job.clone(),
            })
        };
        let mut workers = (0..processes).map(start_worker).collect::<Result<Vec<_>>>()?;
        workers.iter_mut().try_for_each(Worker::wait_until_ready)?;
        self.servers[..self.contestant.stopped_servers()].iter().for_each(RedisServer::pause);
        let start = now() + nanos(warm_up);
        workers.iter_mut().try_for_each(|worker| worker.start_at(start))?;
        let answers = workers.iter_mut().map(Worker::answer).collect::<Result<_>>()?;
        Ok(Outcome { start, answers })
    }

    /// Reads the records of the processes.
    pub(crate) fn sections(&self, processes: usize) -> Result<Vec<Section>> {
        let mut all = Vec::new();
        for process in 0..processes {
            all.extend(read(&self.file(process), process as u64)?);
        }
        Ok(all)
    }

    fn url(&self) -> String {
        match &self.servers[..] {
            [] => String::new(),
            [one] => one.url(),
            several => {
                let nodes = several.iter().map(|server| server.address().to_string());
                format!("redlock://{}", nodes.collect::<Vec<_>>().join(","))
            }
        }
    }

    fn file(&self, process: usize) -> PathBuf {
        self.records.path().join(format!("process-{process}"))
    }
}

impl Outcome {
    pub(crate) fn all<T: DeserializeOwned>(self) -> Result<Vec<T>> {
        let parse = |answer| Ok(serde_json::from_value(answer)?);
        self.answers.into_iter().map(parse).collect()
    }

    /// Returns the answer of the only process.
    pub(crate) fn one<T: DeserializeOwned>(self) -> Result<T> {
        self.all()?.pop().ok_or_else(|| "no process answered".into())
    }
}
