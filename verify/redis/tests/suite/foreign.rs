//! Locks of other clients: strings with an expiry, as stored by `SET NX PX`, and a rolling migration from such clients.

use super::support::{HANGS, answered, has, until};
use crate::client::RedisBackendBuilder;
use lock_core::{LockErrorKind, LockFactory, LockOptions, ReleaseOutcome, backend::BackendErrorKind};
use lock_testkit::RedisServer;
use rslock::LockManager;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

const LEASE: Duration = Duration::from_secs(30);

/// Creates the factory of a process that takes part in a migration.
async fn moving(url: &str) -> LockFactory {
    let builder = RedisBackendBuilder::from_url(url).unwrap().foreign_strings_are_busy(true);
    let options = LockOptions::new().lease(LEASE).poll_interval(Duration::from_millis(10));
    LockFactory::builder(builder.connect().await.unwrap()).options(options).build().unwrap()
}

/// Takes the lock like a client of `SET NX PX`.
fn set_nx(server: &RedisServer, key: &str, value: &str, ttl: Duration) -> bool {
    let ttl = ttl.as_millis().to_string();
    let text = format!("{:?}", server.command(&["SET", key, value, "NX", "PX", &ttl]));
    text.contains("OK")
}

fn delete_if_equal(server: &RedisServer, key: &str, value: &str) {
    const SCRIPT: &str =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    assert_eq!(server.command(&["EVAL", SCRIPT, "1", key, value]).integer(), 1, "still held by this client");
}

#[tokio::test]
async fn string_with_an_expiry_is_busy_until_then() {
    let server = RedisServer::start();
    let locks = moving(&server.url()).await;
    assert!(set_nx(&server, "x", "other", HANGS * 2));
    let lock = locks.named("x").unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let wait = async || lock.acquire_timeout(Duration::from_millis(50)).await.unwrap_err().kind();
    // If a wait is too short for the server to answer, it ends with `Unavailable`.
    until("a wait times out", async || wait().await == LockErrorKind::Timeout).await;
    assert_eq!(server.command(&["PEXPIRE", "x", "300"]).integer(), 1);
    let guard = answered("an acquire behind a string", lock.acquire()).await.unwrap();
    assert!(!set_nx(&server, "x", "other", LEASE), "our hold excludes them as well");
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn waiter_notices_the_delete_of_a_string() {
    let server = RedisServer::start();
    let locks = moving(&server.url()).await;
    assert!(set_nx(&server, "x", "other", HANGS * 2));
    let waiting = tokio::spawn(locks.named("x").unwrap().acquire());
    until("the acquire waits", async || locks.active_locks() == 1).await;
    delete_if_equal(&server, "x", "other");
    let guard = answered("an acquire behind a deleted string", waiting).await.unwrap().unwrap();
    drop(guard);
}

#[tokio::test]
async fn strings_in_a_batch_are_busy_without_affecting_others() {
    let server = RedisServer::start();
    let locks = moving(&server.url()).await;
    for name in ["s:0", "s:3", "s:6"] {
        assert!(set_nx(&server, name, "other", LEASE));
    }
    for _ in 0..5 {
        let tries = (0..9).map(|number| locks.named(format!("s:{number}")).unwrap().try_acquire());
        let guards = futures_util::future::join_all(tries).await;
        let busy: Vec<_> = guards.iter().map(|guard| guard.as_ref().unwrap().is_none()).collect();
        assert_eq!(busy, (0..9).map(|number| number % 3 == 0).collect::<Vec<_>>());
        let released = guards.into_iter().filter_map(|guard| guard.unwrap()).map(|guard| guard.release());
        assert!(futures_util::future::join_all(released).await.iter().all(Result::is_ok));
    }
}

#[tokio::test]
async fn string_is_refused_by_default_and_without_an_expiry() {
    let server = RedisServer::start();
    assert!(set_nx(&server, "x", "other", LEASE));
    let default = super::support::factory(&server.url(), LEASE).await;
    let error = default.named("x").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Backend);
    assert!(format!("{error:#}").contains("foreign_strings_are_busy"), "{error:#}");
    server.command(&["SET", "y", "no lock"]);
    server.command(&["RPUSH", "z", "no lock"]);
    server.command(&["PEXPIRE", "z", "60000"]);
    for locks in [default, moving(&server.url()).await] {
        for name in ["y", "z"] {
            let error = locks.named(name).unwrap().acquire().await.unwrap_err();
            assert_eq!(error.backend_error().unwrap().kind(), BackendErrorKind::WrongType, "{name}");
        }
    }
    assert!(has(&server, "x") && has(&server, "y"));
}

/// A replica may have an old string whose lock ended long ago.
#[tokio::test]
async fn replica_does_not_answer_that_a_string_is_busy() {
    let server = RedisServer::start();
    let locks = moving(&server.url()).await;
    assert!(set_nx(&server, "x", "other", LEASE));
    assert!(locks.named("x").unwrap().try_acquire().await.unwrap().is_none());
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    assert!(locks.named("x").unwrap().try_acquire().await.is_err());
}

#[tokio::test]
async fn quorum_refuses_the_setting() {
    let builder = RedisBackendBuilder::from_url("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3").unwrap();
    let error = builder.foreign_strings_are_busy(true).connect_quorum().await.unwrap_err();
    assert_eq!(error.backend_error().unwrap().kind(), BackendErrorKind::Misconfigured);
}

/// The release of an expired hold must not affect a lock that an old client has acquired since.
#[tokio::test]
async fn release_of_an_expired_hold_leaves_the_lock_of_rslock() {
    let server = RedisServer::start();
    let lock = moving(&server.url()).await.named("x").unwrap();
    let guard = lock.with_fixed_lease(Duration::from_millis(300)).unwrap().acquire().await.unwrap();
    let manager = LockManager::new(vec![server.url()]);
    let theirs = answered("rslock", manager.acquire("x", LEASE)).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::AlreadyExpired);
    assert!(has(&server, "x"), "the lock of rslock is kept");
    assert!(lock.try_acquire().await.unwrap().is_none());
    theirs.release().await;
    assert!(lock.try_acquire().await.unwrap().is_some());
}

/// The critical section that all clients share.
#[derive(Default)]
struct Section {
    inside: AtomicU32,
    over: AtomicBool,
}

impl Section {
    async fn visit(&self) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two holders at once");
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn visit_blocking(&self) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two holders at once");
        thread::sleep(Duration::from_millis(1));
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

const PAUSE: Duration = Duration::from_millis(20);

/// A fleet halfway through its migration: two processes with rslock, two with `SET NX PX`, two with this library.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_and_new_processes_exclude_each_other() {
    const VISITS: u32 = 10;
    let server = Arc::new(RedisServer::start());
    let section = Arc::new(Section::default());

    let by_hand = ["first", "second"].map(|value| {
        let (server, section) = (server.clone(), section.clone());
        thread::spawn(move || {
            let mut visits = 0;
            while !section.is_over() {
                if set_nx(&server, "x", value, LEASE) {
                    section.visit_blocking();
                    delete_if_equal(&server, "x", value);
                    visits += 1;
                }
                thread::sleep(PAUSE);
            }
            visits
        })
    });
    let mut ours = Vec::new();
    for _ in 0..2 {
        let lock = moving(&server.url()).await.named("x").unwrap();
        let section = section.clone();
        ours.push(tokio::spawn(async move {
            let mut visits = 0;
            while !section.is_over() {
                let guard = answered("our acquire", lock.acquire()).await.unwrap();
                section.visit().await;
                assert!(guard.release().await.unwrap().was_held());
                visits += 1;
                tokio::time::sleep(PAUSE).await;
            }
            visits
        }));
    }
    let rslock: Vec<_> = (0..2)
        .map(|_| {
            let (manager, section) = (LockManager::new(vec![server.url()]), section.clone());
            tokio::spawn(async move {
                for _ in 0..VISITS {
                    let guard = answered("rslock", manager.acquire("x", LEASE)).await.unwrap();
                    section.visit().await;
                    guard.release().await;
                    tokio::time::sleep(PAUSE).await;
                }
            })
        })
        .collect();
    let rslock = futures_util::future::join_all(rslock).await;
    section.over.store(true, Ordering::SeqCst);
    assert!(rslock.iter().all(Result::is_ok), "{rslock:?}");
    for visits in futures_util::future::join_all(ours).await {
        assert!(visits.unwrap() > 0);
    }
    for visits in by_hand.map(|thread| thread.join().unwrap()) {
        assert!(visits > 0, "every client had its turns");
    }
}
