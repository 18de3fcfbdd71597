//! What the tests of this crate share: clients of a server, and conditions that are waited for.

use crate::client::RedisBackend;
use lock_core::{
    LockFactory, LockName, LockOptions,
    backend::Backend,
    observer::{LockEvent, LockObserver, WakeSource},
    quorum::QuorumBackend,
};
use lock_testkit::RedisServer;
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Ends what hangs. It is no bound on anything: a busy machine needs a small part of it.
pub(crate) const HANGS: Duration = Duration::from_secs(90);

/// Whether figures are asserted: in the long tier, on a machine that does nothing else.
pub(crate) fn long() -> bool {
    std::env::var_os("LOCK_LONG").is_some()
}

/// The answer, which must come at all.
pub(crate) async fn answered<F: Future>(what: &str, answer: F) -> F::Output {
    tokio::time::timeout(HANGS, answer).await.unwrap_or_else(|_| panic!("{what} hangs"))
}

/// A client with connections of its own, as another process would have them.
pub(crate) async fn client(url: &str) -> Arc<dyn Backend> {
    Arc::new(redis(url).await)
}

pub(crate) async fn redis(url: &str) -> RedisBackend {
    RedisBackend::connect(url)
        .await
        .unwrap_or_else(|error| panic!("a server that runs is connected to: {error:?}"))
}

/// A quorum, by its URL.
pub(crate) async fn quorum(url: &str) -> QuorumBackend {
    RedisBackend::connect_quorum(url)
        .await
        .unwrap_or_else(|error| panic!("nodes that run are connected to: {error:?}"))
}

/// Lets a node have kept its data for a day.
pub(crate) fn grow_old(server: &RedisServer) {
    let info = server.command(&["INFO", "server"]);
    let run = info.text().lines().find_map(|line| line.strip_prefix("run_id:")).unwrap();
    let now: u64 = server.command(&["TIME"]).list()[0].text().parse().unwrap();
    let marker = format!("{run} {}000000", now - 24 * 60 * 60);
    assert_eq!(server.command(&["SET", "distlock:node", &marker]).text(), "OK");
}

/// A process's factory, with this lease.
pub(crate) async fn factory(url: &str, lease: Duration) -> LockFactory {
    let options = LockOptions::new().lease(lease);
    LockFactory::builder(redis(url).await).options(options).build().expect("the options fit together")
}

/// Remembers which waiters were woken, and by what.
#[derive(Debug, Clone, Default)]
pub(crate) struct WakeUps(Arc<Mutex<Vec<(LockName, WakeSource)>>>);

impl WakeUps {
    /// A process's factory whose wake-ups are remembered here.
    pub(crate) async fn of(&self, url: &str, lease: Duration) -> LockFactory {
        let builder = LockFactory::builder(redis(url).await).observer(self.clone());
        builder.options(LockOptions::new().lease(lease)).build().expect("the options fit together")
    }

    pub(crate) fn count(&self, lock: &str, by: WakeSource) -> usize {
        let all = self.0.lock().unwrap();
        all.iter().filter(|(name, wake)| name.as_str() == lock && *wake == by).count()
    }
}

impl LockObserver for WakeUps {
    fn on_event(&self, event: &LockEvent<'_>) {
        if let LockEvent::WakeUp { name, source: wake, .. } = event {
            self.0.lock().unwrap().push((LockName::clone(name), *wake));
        }
    }
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("the tests use good names")
}

/// Waits until the condition holds, and fails with its words if it never does.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < HANGS, "{what}: still not after {HANGS:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a lease of this duration has been renewed at a server: by then most of it is left again. What was renewed at
/// an old master after the promotion of the new one is lost, so the lease has to be long.
pub(crate) async fn until_renewed(server: &RedisServer, lock: &str, lease: Duration) {
    let most = i64::try_from(lease.as_millis()).unwrap() * 9 / 10;
    until("the lease is renewed", async || server.command(&["PTTL", lock]).integer() > most).await;
}

/// Whether a server has a key.
pub(crate) fn has(server: &RedisServer, key: &str) -> bool {
    server.keys().iter().any(|other| other == key)
}

/// How often a server has executed a command, also within scripts.
pub(crate) fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text().to_owned();
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// Fails unless nothing of the locks is left but counters, which stay for a while.
pub(crate) fn assert_no_lock_is_left(server: &RedisServer) {
    let left = server
        .keys()
        .into_iter()
        .filter(|key| !key.starts_with("redisson_lock_token:") && key != "distlock:node");
    let left: Vec<_> = left.collect();
    assert_eq!(left, Vec::<String>::new(), "keys that are left");
}
