//! Helpers shared by the trials: clients of a server, conditions to wait for, the referee.

use crate::support::command;
use lock_core::{Lock, LockFactory, LockOptions, Store};
use lock_testkit::{MariaDbServer, PostgresServer, RedisServer};
use lock_trials::{
    cli::Client,
    line::{Line, Order},
    process::Process,
    referee::Witness,
};
use std::{
    net::SocketAddr,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The time limit of anything that may hang. A busy machine needs only a small part of it.
pub(crate) const HANGS: Duration = Duration::from_secs(60);
/// A lease that outlasts any wait, so that its end cannot be mistaken for a release.
pub(crate) const ENDLESS: Duration = Duration::from_secs(300);

/// Runs an async trial on several threads, like an application.
pub(crate) fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}

/// Creates the factory of a process, with its own connections.
pub(crate) async fn factory(url: &str, options: LockOptions) -> LockFactory {
    LockFactory::builder(store(url).await).options(options).build().expect("consistent options")
}

pub(crate) async fn store(url: &str) -> Store {
    Client::of_this_run()
        .connect(url)
        .await
        .unwrap_or_else(|error| panic!("a server that runs is connected to: {error:?}"))
}

/// Loads the scripts, so that the server knows their hashes.
pub(crate) async fn warm_up(locks: &LockFactory) {
    let options = LockOptions::new().lease(Duration::from_secs(5)).renew_every(Duration::from_millis(100));
    let lock = lock(locks, "warm").with_options(options);
    let guard = lock.unwrap().acquire().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    guard.release().await.unwrap();
}

pub(crate) fn lock(locks: &LockFactory, name: &str) -> Lock {
    locks.named(name).expect("valid name")
}

/// Waits until the condition holds. Panics with its description if it never does.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < HANGS, "{what}: not after {HANGS:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Runs a blocking operation on a server.
pub(crate) async fn blocking<T: Send + 'static>(
    server: &Arc<RedisServer>,
    work: impl FnOnce(&RedisServer) -> T + Send + 'static,
) -> T {
    let server = server.clone();
    tokio::task::spawn_blocking(move || work(&server)).await.unwrap()
}

/// A file of locks in a folder of its own.
pub(crate) struct LockFile(TempDir);

impl LockFile {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.0.path().join("locks.db").display())
    }
}

/// A PostgreSQL database for locks, with its tables.
pub(crate) fn postgres() -> (PostgresServer, String) {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let url = migrated(server.url());
    (server, url)
}

/// A MariaDB database for locks, with its tables.
pub(crate) fn mariadb() -> (MariaDbServer, String) {
    let server = MariaDbServer::start();
    let url = migrated(server.database("locks"));
    (server, url)
}

/// Creates the tables of locks, before several processes connect at once, and returns the URL.
pub(crate) fn migrated(url: String) -> String {
    on_a_runtime(async { lock_sqlx::migrate(&url).await.expect("the tables are created") });
    url
}

/// Returns the keys of locks, excluding counters, which are kept for a while.
pub(crate) fn orphans(server: &RedisServer) -> Vec<String> {
    server.keys().into_iter().filter(|key| !key.starts_with("redisson_lock_token:")).collect()
}

/// Fails if an unreleased lock is left, which would end one lease after its last renewal. Also fails if a release comes
/// so late that it cannot be distinguished from such an end.
pub(crate) async fn assert_all_released(server: &RedisServer, lease: Duration) {
    let late = i64::try_from(lease.as_millis() / 10).expect("a short lease");
    loop {
        let left = orphans(server);
        if left.is_empty() {
            return;
        }
        for key in left {
            let remaining = server.command(&["PTTL", &key]).integer();
            assert!(remaining < 0 || remaining > late, "{key} is not released");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The referee in a separate process.
pub(crate) struct Referee {
    process: Process,
    bench: Bench,
}

/// The verdict of the referee.
pub(crate) struct Verdict {
    pub(crate) windows: u64,
    /// Holds of a lease that had been released by force.
    pub(crate) left_out: u64,
    violations: Vec<Line>,
}

impl Verdict {
    /// Returns the number of violations of this kind.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.violations.iter().filter(|line| line.text("kind") == kind).count()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.violations.iter().map(|line| line.text("text").to_owned()).collect()
    }
}

/// The address to which holds are reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bench(SocketAddr);

impl Referee {
    pub(crate) fn appears() -> Self {
        let mut process = Process::start(&mut Command::new(env!("CARGO_BIN_EXE_lock-referee")));
        let address = process.expect("listening").text("address").parse().expect("an address");
        Self { process, bench: Bench(address) }
    }

    pub(crate) fn bench(&self) -> Bench {
        self.bench
    }

    /// Returns the number of recorded holds, and the violations, once all witnesses have disconnected.
    pub(crate) fn judges(self) -> (u64, Vec<String>) {
        let verdict = self.verdict();
        (verdict.windows, verdict.texts())
    }

    /// Returns the verdict once all witnesses have disconnected.
    pub(crate) fn verdict(mut self) -> Verdict {
        self.process.tell(&Order::Judge);
        let mut violations = self.process.until("verdict");
        let verdict = violations.pop().expect("a verdict");
        let (windows, left_out) = (verdict.number("windows"), verdict.number("left_out"));
        Verdict { windows, left_out, violations }
    }
}

impl Bench {
    pub(crate) fn address(self) -> SocketAddr {
        self.0
    }

    /// Starts a process whose holds are reported to it.
    pub(crate) fn watches(self, url: &str, lease_ms: u64, words: &[&str]) -> Process {
        let mut command = command(url, lease_ms, &["--referee", &self.0.to_string()]);
        Process::start(command.args(words))
    }

    /// Returns a witness for the holds of this process, which reports each of them this often.
    pub(crate) fn witness(self, often: Duration) -> Witness {
        Witness::of(self.0, often).expect("listening")
    }
}
