//! The store of a fleet, and the records of its instances there: those of Redis as they are stored, others through the
//! run ledger of another client.

use crate::store::{self, Decided};
use lock_core::LockName;
use lock_ledger::{GroupName, Instances, InstancesFrom, JobId, Registration, RunLedger, RunOutcome};
use lock_testkit::{PostgresServer, RedisServer};
use lock_trials::cli::Client;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    thread::sleep,
    time::Duration,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The store of a fleet.
pub(crate) enum Place {
    Redis(Box<RedisServer>),
    Sql(Box<Sql>),
}

/// A database, with a client for its records.
pub(crate) struct Sql {
    /// `None` for an SQLite file.
    server: Option<PostgresServer>,
    url: String,
    records: Arc<dyn RunLedger>,
    runtime: Runtime,
    _folder: TempDir,
}

impl Place {
    pub(crate) fn redis() -> Self {
        Self::Redis(Box::new(RedisServer::start()))
    }

    pub(crate) fn postgres() -> Self {
        let server = PostgresServer::with_settings(&["fsync=on"]);
        let url = format!("{}?migrate=true", server.url());
        Self::Sql(Box::new(Sql::new(Some(server), |_| url)))
    }

    pub(crate) fn file() -> Self {
        Self::Sql(Box::new(Sql::new(None, |folder| {
            format!("sqlite:{}", folder.path().join("fleet.db").display())
        })))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Sql(sql) => sql.url.clone(),
        }
    }

    /// Returns the server of a fleet on Redis.
    pub(crate) fn server(&self) -> &RedisServer {
        match self {
            Self::Redis(server) => server,
            Self::Sql(_) => panic!("the fleet is not on Redis"),
        }
    }

    /// Makes the store unreachable for this time. Returns `false` for a file, which always is.
    pub(crate) fn fail_for(&self, time: Duration) -> bool {
        match self {
            Self::Redis(server) => {
                server.pause();
                sleep(time);
                server.resume();
            }
            Self::Sql(sql) => {
                let Some(server) = &sql.server else { return false };
                server.stop();
                sleep(time);
                server.restart();
            }
        }
        true
    }

    /// Returns the decisions about an instance.
    pub(crate) fn decided(&self, name: &str) -> Decided {
        match self {
            Self::Redis(server) => store::decided(server, name),
            Self::Sql(sql) => sql.decided(name),
        }
    }

    /// Returns the instants of the open runs of each instance.
    pub(crate) fn open(&self) -> BTreeMap<String, BTreeSet<u64>> {
        match self {
            Self::Redis(server) => store::open(server),
            Self::Sql(sql) => sql.open(),
        }
    }

    /// Returns the names of the defined instances.
    pub(crate) fn defined(&self) -> BTreeSet<String> {
        match self {
            Self::Redis(server) => store::defined(server),
            Self::Sql(sql) => sql.defined(),
        }
    }

    /// Returns the time up to which each of these instances is decided.
    pub(crate) fn marks(&self, names: &[String]) -> Vec<u64> {
        match self {
            Self::Redis(server) => store::marks(server, names),
            Self::Sql(sql) => sql.marks(names),
        }
    }
}

fn group() -> GroupName {
    GroupName::new("fleet").expect("valid name")
}

fn job(name: &str) -> LockName {
    LockName::new(name).expect("valid name")
}

impl Sql {
    fn new(server: Option<PostgresServer>, url: impl FnOnce(&TempDir) -> String) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = url(&folder);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let connect = Client::of_this_run().connect_with_ledger(&url);
        let (_, records) = runtime.block_on(connect).expect("the database is there");
        Self { server, url, records, runtime, _folder: folder }
    }

    fn marks(&self, names: &[String]) -> Vec<u64> {
        let jobs = names.iter().map(|name| Registration { job: job(name), schedule: 0 }).collect();
        let marks = self.runtime.block_on(self.records.watermarks(group(), jobs)).expect("an answer").outcome;
        marks.into_iter().map(|mark| mark.expect("a known job").as_millis()).collect()
    }

    fn open(&self) -> BTreeMap<String, BTreeSet<u64>> {
        let runs = self.runtime.block_on(self.records.open_runs(group())).expect("an answer").outcome;
        let mut open = BTreeMap::<_, BTreeSet<_>>::new();
        for run in runs {
            let instant = run.run.instant().expect("a scheduled run").as_millis();
            open.entry(run.job.as_str().to_owned()).or_default().insert(instant);
        }
        open
    }

    fn defined(&self) -> BTreeSet<String> {
        let all = self.records.instances(group(), InstancesFrom::Revision(u64::MAX));
        match self.runtime.block_on(all).expect("an answer").outcome {
            Instances::All { instances, .. } => {
                instances.into_iter().map(|instance| instance.name.as_str().to_owned()).collect()
            }
            other => panic!("no group has that revision: {other:?}"),
        }
    }

    fn decided(&self, name: &str) -> Decided {
        let up_to = self.marks(&[name.to_owned()])[0];
        let (mut unreported, mut skipped) = (self.open().remove(name).unwrap_or_default(), 0);
        let history = self.records.history(JobId { group: group(), name: job(name) }, usize::MAX);
        for attempt in self.runtime.block_on(history).expect("an answer").outcome {
            match attempt.outcome {
                RunOutcome::Skipped => skipped += usize::try_from(attempt.count).expect("few skips"),
                RunOutcome::Abandoned => {
                    unreported.insert(attempt.run.instant().expect("a scheduled run").as_millis());
                }
                _ => {}
            }
        }
        Decided { up_to, unreported, skipped }
    }
}
