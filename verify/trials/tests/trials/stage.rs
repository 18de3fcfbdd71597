//! What the trials share: clients of a server, conditions that are waited for, the referee.

use crate::support::command;
use lock_core::{Lock, LockFactory, LockOptions, Store};
use lock_testkit::RedisServer;
use lock_trials::{client::Client, line::Order, process::Process, referee::Witness};
use std::{
    net::SocketAddr,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

/// Ends what hangs. It is no bound on anything: a busy machine needs a small part of it.
pub(crate) const HANGS: Duration = Duration::from_secs(60);
/// A lease that nobody can mistake for a release: it lasts longer than anything waits.
pub(crate) const ENDLESS: Duration = Duration::from_secs(300);

/// Carries out an async trial, as an application would: on several threads.
pub(crate) fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made")
        .block_on(work)
}

/// A process's factory, with connections of its own.
pub(crate) async fn factory(url: &str, options: LockOptions) -> LockFactory {
    LockFactory::builder(store(url).await).options(options).build().expect("the options fit together")
}

pub(crate) async fn store(url: &str) -> Store {
    Client::of_this_run()
        .connect(url)
        .await
        .unwrap_or_else(|error| panic!("a server that runs is connected to: {error:?}"))
}

/// From here on the scripts are loaded, and known by their hashes.
pub(crate) async fn warm_up(locks: &LockFactory) {
    let options = LockOptions::new().lease(Duration::from_secs(5)).renew_every(Duration::from_millis(100));
    let lock = lock(locks, "warm").with_options(options);
    let guard = lock.unwrap().acquire().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    guard.release().await.unwrap();
}

pub(crate) fn lock(locks: &LockFactory, name: &str) -> Lock {
    locks.named(name).expect("the trials use good names")
}

/// Waits until the condition holds, and fails with its words if it never does.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < HANGS, "{what}: still not after {HANGS:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Does to a server what blocks.
pub(crate) async fn blocking<T: Send + 'static>(
    server: &Arc<RedisServer>,
    work: impl FnOnce(&RedisServer) -> T + Send + 'static,
) -> T {
    let server = server.clone();
    tokio::task::spawn_blocking(move || work(&server)).await.unwrap()
}

/// Keys of the locks, without counters, which stay for a while.
pub(crate) fn orphans(server: &RedisServer) -> Vec<String> {
    server.keys().into_iter().filter(|key| !key.starts_with("redisson_lock_token:")).collect()
}

/// Fails if a lock is left that nobody gives back: it would end by itself, a lease after it was last renewed. Fails also
/// if one is given back so late that this cannot be told apart.
pub(crate) async fn all_are_given_back(server: &RedisServer, lease: Duration) {
    let late = i64::try_from(lease.as_millis() / 10).expect("a short lease");
    loop {
        let left = orphans(server);
        if left.is_empty() {
            return;
        }
        for key in left {
            let remaining = server.command(&["PTTL", &key]).integer();
            assert!(remaining < 0 || remaining > late, "{key} is left to its end");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The referee, in a process of its own.
pub(crate) struct Referee {
    process: Process,
    bench: Bench,
}

/// Where it is told of holds.
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

    /// Its verdict, once all witnesses have left: how many holds it heard of, and what must not have been.
    pub(crate) fn judges(mut self) -> (u64, Vec<String>) {
        self.process.tell(&Order::Judge);
        let mut lines = self.process.until("verdict");
        let verdict = lines.pop().expect("the verdict comes last");
        (verdict.number("windows"), lines.iter().map(|line| line.text("text").to_owned()).collect())
    }
}

impl Bench {
    pub(crate) fn address(self) -> SocketAddr {
        self.0
    }

    /// A process whose holds it hears of.
    pub(crate) fn watches(self, url: &str, lease_ms: u64, words: &[&str]) -> Process {
        let mut command = command(url, lease_ms, &["--referee", &self.0.to_string()]);
        Process::start(command.args(words))
    }

    /// For the holds of this process.
    pub(crate) fn witness(self) -> Witness {
        Witness::of(self.0).expect("it listens")
    }
}
