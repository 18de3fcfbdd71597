//! Shared helpers: clients of a server, and conditions to wait for.

use crate::client::RedisBackend;
use lock_core::{
    LockFactory, LockName, LockOptions,
    backend::Backend,
    observer::{LockEvent, LockEventKind, LockObserver, WakeSource},
};
use lock_quorum::QuorumBackend;
use lock_testkit::RedisServer;
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// The time limit of anything that may hang. A busy machine needs only a small part of it.
pub(crate) const HANGS: Duration = Duration::from_secs(90);

/// Returns `true` in long runs, on an otherwise idle machine, in which figures are asserted.
pub(crate) fn long() -> bool {
    std::env::var_os("LOCK_LONG").is_some()
}

/// Awaits the answer, and panics if it does not arrive.
pub(crate) async fn answered<F: Future>(what: &str, answer: F) -> F::Output {
    tokio::time::timeout(HANGS, answer).await.unwrap_or_else(|_| panic!("{what} hangs"))
}

/// Returns a client with its own connections, like another process.
pub(crate) async fn client(url: &str) -> Arc<dyn Backend> {
    Arc::new(redis(url).await)
}

pub(crate) async fn redis(url: &str) -> RedisBackend {
    RedisBackend::connect(url)
        .await
        .unwrap_or_else(|error| panic!("a server that runs is connected to: {error:?}"))
}

/// Connects to a quorum by its URL.
pub(crate) async fn quorum(url: &str) -> QuorumBackend {
    RedisBackend::connect_quorum(url)
        .await
        .unwrap_or_else(|error| panic!("nodes that run are connected to: {error:?}"))
}

/// Makes a node appear to have kept its data for a day.
pub(crate) fn grow_old(server: &RedisServer) {
    let info = server.command(&["INFO", "server"]);
    let run = info.text().lines().find_map(|line| line.strip_prefix("run_id:")).unwrap();
    let now: u64 = server.command(&["TIME"]).list()[0].text().parse().unwrap();
    let marker = format!("{run} {}000000", now - 24 * 60 * 60);
    assert_eq!(server.command(&["SET", "distlock:node", &marker]).text(), "OK");
}

/// Creates the factory of a process, with this lease.
pub(crate) async fn factory(url: &str, lease: Duration) -> LockFactory {
    let options = LockOptions::new().lease(lease);
    LockFactory::builder(redis(url).await).options(options).build().expect("consistent options")
}

/// Records which waiters were woken, and by what.
#[derive(Debug, Clone, Default)]
pub(crate) struct WakeUps(Arc<Mutex<Vec<(LockName, WakeSource)>>>);

impl WakeUps {
    /// Creates the factory of a process whose wake-ups are recorded here.
    pub(crate) async fn of(&self, url: &str, lease: Duration) -> LockFactory {
        let builder = LockFactory::builder(redis(url).await).observer(self.clone());
        builder.options(LockOptions::new().lease(lease)).build().expect("consistent options")
    }

    pub(crate) fn count(&self, lock: &str, by: WakeSource) -> usize {
        let all = self.0.lock().unwrap();
        all.iter().filter(|(name, wake)| name.as_str() == lock && *wake == by).count()
    }
}

impl LockObserver for WakeUps {
    fn on_event(&self, event: &LockEvent<'_>) {
        if let LockEventKind::WakeUp { source: wake, .. } = &event.kind {
            self.0.lock().unwrap().push((event.name.clone(), *wake));
        }
    }
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("valid name")
}

/// Waits until the condition holds. Panics with its description if it never does.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < HANGS, "{what}: not after {HANGS:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a server has renewed a lease of this duration, so that most of it remains again. Renewals on an old
/// master after the promotion of the new one are lost, so the lease must be long.
pub(crate) async fn until_renewed(server: &RedisServer, lock: &str, lease: Duration) {
    let most = i64::try_from(lease.as_millis()).unwrap() * 9 / 10;
    until("the lease is renewed", async || server.command(&["PTTL", lock]).integer() > most).await;
}

/// Returns `true` if a server has a key.
pub(crate) fn has(server: &RedisServer, key: &str) -> bool {
    server.keys().iter().any(|other| other == key)
}

/// Returns how often a server has executed a command, including within scripts.
pub(crate) fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text().to_owned();
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// Asserts that nothing is left of the locks except counters, which are kept for a while.
pub(crate) fn assert_no_lock_is_left(server: &RedisServer) {
    let left = server
        .keys()
        .into_iter()
        .filter(|key| !key.starts_with("redisson_lock_token:") && key != "distlock:node");
    let left: Vec<_> = left.collect();
    assert_eq!(left, Vec::<String>::new(), "remaining keys");
}
