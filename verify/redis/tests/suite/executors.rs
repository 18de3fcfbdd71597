//! Locks from any executor and from none: connections that outlive the runtime that connected, and their move to the
//! keeper when that runtime ends or is not driven.

use super::support::{HANGS, grow_old, has, redis, until};
use crate::client::{RedisBackend, RedisBackendBuilder};
use lock_core::{LockErrorKind, LockFactory, LockOptions, Store, Worker, observer::WakeSource};
use lock_testkit::{RedisCluster, RedisSentinels, RedisServer};
use std::{
    future::pending,
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::{Builder, Runtime};

/// Longer than the move of a connection takes, even on a busy machine.
const LEASE: Duration = Duration::from_secs(4);

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn builder(url: &str) -> RedisBackendBuilder {
    RedisBackendBuilder::from_url(url).unwrap()
}

fn locks(store: impl Into<Store>) -> LockFactory {
    LockFactory::builder(store).options(LockOptions::new().lease(LEASE)).build().unwrap()
}

#[test]
fn locks_work_under_another_executor() {
    let server = RedisServer::start();
    smol::block_on(async {
        let locks = locks(RedisBackend::connect(&server.url()).await.unwrap());
        let lock = locks.named("x").unwrap();
        drop(lock.acquire().await.unwrap());
        let guard = lock.acquire().await.unwrap();
        let lost = smol::spawn(guard.lost());
        smol::Timer::after(3 * LEASE).await;
        assert!(guard.is_held() && !lost.is_finished() && has(&server, "x"), "it is renewed");
        assert_eq!(
            locks.inspect("x").await.unwrap().stored.unwrap().lease,
            guard.hold().lease_id().to_string()
        );
        assert!(guard.release().await.unwrap().was_held());
        assert!(locks.shutdown().await.is_clean());
    });
}

#[test]
fn threads_without_a_runtime_exclude_each_other() {
    let server = RedisServer::start();
    let locks = locks(builder(&server.url()).connect_lazy().unwrap());
    let inside = AtomicU32::new(0);
    thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                let lock = locks.named("x").unwrap();
                for _ in 0..50 {
                    let guard = lock.acquire_timeout_blocking(HANGS).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert!(guard.release_blocking().unwrap().was_held());
                }
            });
        }
    });
    assert!(!has(&server, "x"));
}

/// The only thread of the application computes without an await.
#[test]
fn spinning_application_keeps_its_lock() {
    let server = RedisServer::start();
    current().block_on(async {
        let locks = locks(RedisBackend::connect(&server.url()).await.unwrap());
        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        let begin = Instant::now();
        while begin.elapsed() < 2 * LEASE {
            spin_loop();
        }
        assert!(has(&server, "x") && guard.is_held());
        assert!(guard.release().await.unwrap().was_held());
    });
    assert!(!has(&server, "x"));
}

#[test]
fn hold_of_a_runtime_that_is_rarely_driven_is_renewed() {
    let server = RedisServer::start();
    let runtime = current();
    let locks = locks(runtime.block_on(RedisBackend::connect(&server.url())).unwrap());
    let lock = locks.named("x").unwrap();
    let guard = runtime.block_on(lock.acquire()).unwrap();
    let lost = runtime.spawn(guard.lost());
    for _ in 0..3 {
        thread::sleep(LEASE);
        runtime.block_on(tokio::task::yield_now());
    }
    assert!(guard.is_held() && !lost.is_finished(), "it is renewed");
    drop(guard);
    assert!(runtime.block_on(lock.acquire_timeout(HANGS)).is_ok());
}

/// Returns stores of each kind, connected in the runtime.
fn connected(runtime: &Runtime, urls: &[String]) -> Vec<LockFactory> {
    let connect = |url: &String| locks(runtime.block_on(builder(url).connect_store()).unwrap());
    urls.iter().map(connect).collect()
}

/// Holds live on, and the next request works.
#[test]
fn locks_outlive_the_runtime_that_connected() {
    let (server, cluster, sentinels) = (RedisServer::start(), RedisCluster::start(), RedisSentinels::start());
    let nodes: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    nodes.iter().for_each(grow_old);
    let hosts: Vec<_> = nodes.iter().map(|server| server.url().replace("redis://", "")).collect();
    let urls = [server.url(), cluster.url(), sentinels.url(), format!("redlock://{}", hosts.join(","))];
    let (first, second) = (multi(), multi());
    let factories = connected(&first, &urls);
    let guards: Vec<_> =
        factories.iter().map(|locks| first.block_on(locks.named("x").unwrap().acquire()).unwrap()).collect();
    drop(first);
    for (locks, url) in factories.iter().zip(&urls) {
        let lock = locks.named("y").unwrap();
        let guard =
            second.block_on(lock.acquire_timeout(HANGS)).unwrap_or_else(|error| panic!("{url}: {error:#}"));
        assert!(second.block_on(guard.release()).unwrap().was_held(), "{url}");
    }
    thread::sleep(2 * LEASE);
    for ((locks, guard), url) in factories.iter().zip(guards).zip(&urls) {
        assert!(guard.is_held(), "{url}");
        assert!(second.block_on(guard.release()).unwrap().was_held(), "{url}");
        assert!(second.block_on(locks.shutdown()).is_clean(), "{url}");
    }
}

/// A waiter in another runtime is woken by a message, not by its next poll, although the runtime of the connection for
/// messages has ended.
#[test]
fn waiter_is_woken_after_the_end_of_the_runtime_that_connected() {
    let server = RedisServer::start();
    let (first, second) = (multi(), multi());
    let wakes = super::support::WakeUps::default();
    let waiting = first.block_on(wakes.of(&server.url(), LEASE * 100));
    let holding = locks(second.block_on(redis(&server.url())));
    let guard = second.block_on(holding.named("x").unwrap().acquire()).unwrap();
    let waits = second.spawn(waiting.named("x").unwrap().acquire());
    drop(first);
    let lock = waiting.named("y").unwrap();
    drop(second.block_on(lock.acquire_timeout(HANGS)).unwrap());
    second.block_on(async {
        let subscribed = || server.command(&["PUBSUB", "CHANNELS"]).list().len();
        until("it is subscribed again", async || subscribed() == 1).await;
        let before = wakes.count("x", WakeSource::Poll);
        guard.release().await.unwrap();
        let guard = tokio::time::timeout(HANGS, waits).await.unwrap().unwrap().unwrap();
        assert_eq!(wakes.count("x", WakeSource::Poll), before);
        guard.release().await.unwrap();
    });
}

/// As in the tests of an application, each of which has its own runtime.
#[test]
fn runtimes_that_come_and_go_share_a_factory() {
    let server = RedisServer::start();
    let locks = locks(builder(&server.url()).connect_lazy().unwrap());
    let uses = || {
        current().block_on(async {
            for _ in 0..20 {
                let guard = locks.named("x").unwrap().acquire_timeout(HANGS).await.unwrap();
                tokio::task::yield_now().await;
                drop(guard);
            }
        });
    };
    thread::scope(|threads| {
        for _ in 0..5 {
            threads.spawn(uses);
        }
    });
    uses();
}

/// They have no timers or no IO, so the connections live in the keeper.
#[test]
fn incomplete_runtimes_can_connect() {
    let server = RedisServer::start();
    for runtime in [
        Builder::new_current_thread().build().unwrap(),
        Builder::new_current_thread().enable_io().build().unwrap(),
        Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap(),
    ] {
        runtime.block_on(async {
            let locks = locks(RedisBackend::connect(&server.url()).await.unwrap());
            let guard = locks.named("x").unwrap().acquire().await.unwrap();
            assert!(guard.release().await.unwrap().was_held());
            assert!(locks.shutdown().await.is_clean());
        });
    }
}

#[test]
fn worker_on_an_incomplete_runtime_is_a_typed_error() {
    let server = RedisServer::start();
    for (runtime, says) in [
        (Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap(), "no timers"),
        (Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap(), "no IO"),
    ] {
        let builder = || builder(&server.url()).worker(Worker::on(runtime.handle().clone()));
        let eager = current().block_on(builder().connect()).map(drop);
        for error in [eager.unwrap_err(), builder().connect_lazy().map(drop).unwrap_err()] {
            assert_eq!(error.kind(), LockErrorKind::NoRuntime, "{error:#}");
            assert!(error.to_string().contains(says), "{error:#}");
        }
    }
}

#[test]
fn thread_of_a_worker_ends_with_the_last_backend() {
    let server = RedisServer::start();
    let worker = Worker::thread().unwrap();
    let alive = Arc::new(());
    let ended = Arc::downgrade(&alive);
    let runtime = current();
    let task = async move {
        tokio::spawn(async move {
            let _alive = alive;
            pending::<()>().await;
        });
    };
    runtime.block_on(worker.run(task)).unwrap();
    let backend = runtime.block_on(builder(&server.url()).worker(worker).connect()).unwrap();
    let locks = LockFactory::new(backend.clone());
    drop(locks.named("x").unwrap().acquire_blocking().unwrap());
    drop(locks);
    runtime.block_on(backend.ping()).expect("connections live as long as their backend");
    assert!(ended.upgrade().is_some());
    drop(backend);
    runtime.block_on(until("the thread ends with its last owner", async || ended.upgrade().is_none()));
}

/// The runtime that connected idles: each request of a thread is delayed, and none fails; a hold of 3 s lives on.
fn requests_of_threads_outlast_an_idle_runtime(url: &str) {
    let idle = current();
    let store = idle.block_on(builder(url).connect_store()).unwrap();
    let factory = |seconds| {
        let options = LockOptions::new().lease(Duration::from_secs(seconds));
        LockFactory::builder(store.clone()).options(options).build().unwrap()
    };
    let (locks, short) = (factory(30), factory(3));
    let held = idle.block_on(short.named("held").unwrap().acquire()).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(6) {
        let guard = locks.named("y").unwrap().try_acquire_blocking();
        let guard = guard.unwrap_or_else(|error| panic!("{url} after {:?}: {error:#}", begin.elapsed()));
        let released = guard.expect("free").release_blocking();
        assert!(released.as_ref().is_ok_and(|released| released.was_held()), "{url}: {released:?}");
    }
    assert!(held.is_held(), "{url}");
    assert!(held.release_blocking().unwrap().was_held(), "{url}");
}

#[test]
fn requests_to_one_server_outlast_an_idle_runtime() {
    requests_of_threads_outlast_an_idle_runtime(&RedisServer::start().url());
}

#[test]
fn requests_to_a_cluster_outlast_an_idle_runtime() {
    requests_of_threads_outlast_an_idle_runtime(&RedisCluster::start().url());
}

#[test]
fn requests_to_a_master_of_sentinels_outlast_an_idle_runtime() {
    requests_of_threads_outlast_an_idle_runtime(&RedisSentinels::start().url());
}

#[test]
fn waiter_is_woken_by_push_after_its_runtime_idled() {
    let server = RedisServer::start();
    let (first, second) = (current(), multi());
    let wakes = super::support::WakeUps::default();
    let waiting = first.block_on(wakes.of(&server.url(), LEASE * 100));
    let holding = locks(second.block_on(redis(&server.url())));
    let guard = second.block_on(holding.named("x").unwrap().acquire()).unwrap();
    let waits = second.spawn(waiting.named("x").unwrap().acquire());
    thread::sleep(Duration::from_millis(2_500));
    second.block_on(async {
        let before = wakes.count("x", WakeSource::Poll);
        guard.release().await.unwrap();
        let guard = tokio::time::timeout(HANGS, waits).await.unwrap().unwrap().unwrap();
        assert_eq!(wakes.count("x", WakeSource::Poll), before);
        guard.release().await.unwrap();
    });
    // The old connections resume.
    first.block_on(async { tokio::time::sleep(Duration::from_millis(300)).await });
    for _ in 0..20 {
        drop(second.block_on(waiting.named("x").unwrap().acquire_timeout(HANGS)).unwrap());
    }
    let clients = || server.command(&["CLIENT", "LIST"]).text().lines().count();
    drop((waiting, holding));
    let begin = Instant::now();
    while clients() > 1 {
        assert!(begin.elapsed() < HANGS, "{}", server.command(&["CLIENT", "LIST"]).text());
        second.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
        first.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
    }
}

#[test]
fn runtime_that_blocks_for_700_ms_again_and_again_keeps_short_leases() {
    let server = RedisServer::start();
    current().block_on(async {
        let store = redis(&server.url()).await;
        let options = LockOptions::new().lease(Duration::from_secs(3));
        let locks = LockFactory::builder(store).options(options).build().unwrap();
        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        for round in 0..12 {
            thread::sleep(Duration::from_millis(700));
            let other = locks.named("y").unwrap().acquire_timeout(HANGS).await;
            let other = other.unwrap_or_else(|error| panic!("round {round}: {error:#}"));
            assert!(guard.is_held() && has(&server, "x"), "round {round}");
            other.release().await.unwrap();
        }
        assert!(guard.release().await.unwrap().was_held());
    });
}

#[test]
fn runtime_that_is_shut_down_in_an_async_context() {
    let server = RedisServer::start();
    for first in [current(), multi()] {
        let second = current();
        let locks = locks(first.block_on(redis(&server.url())));
        let guard = first.block_on(locks.named("x").unwrap().acquire()).unwrap();
        second.block_on(async {
            first.shutdown_background();
            for _ in 0..20 {
                drop(locks.named("y").unwrap().acquire_timeout(HANGS).await.unwrap());
            }
            assert!(guard.is_held());
            assert!(guard.release().await.unwrap().was_held());
            assert!(locks.shutdown().await.is_clean());
        });
    }
}

const SUSPENDED: &str = "LOCK_TEST_SUSPENDED";

#[test]
fn process_that_is_suspended_loses_no_request() {
    if let Ok(url) = std::env::var(SUSPENDED) {
        let runtime = multi();
        runtime.block_on(async {
            let options = LockOptions::new().lease(Duration::from_secs(30));
            let locks = LockFactory::builder(redis(&url).await).options(options).build().unwrap();
            let held = locks.named("held").unwrap().acquire().await.unwrap();
            let begin = Instant::now();
            let mut done = 0;
            while begin.elapsed() < Duration::from_secs(9) {
                let guard = locks.named("x").unwrap().acquire_timeout(HANGS).await.unwrap();
                // Unconfirmed if the process was suspended for longer than the operation timeout meanwhile.
                let _ = guard.release().await;
                done += 1;
            }
            assert!(held.is_held() && done > 100, "{done}");
            assert!(held.release().await.unwrap().was_held());
        });
        return;
    }
    let server = RedisServer::start();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["suite::executors::process_that_is_suspended_loses_no_request", "--exact", "--nocapture"])
        .env(SUSPENDED, server.url())
        .spawn();
    let mut child = child.unwrap();
    thread::sleep(Duration::from_secs(2));
    let signal = |name: &str| {
        assert!(
            std::process::Command::new("kill")
                .args([name, &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    };
    signal("-STOP");
    thread::sleep(Duration::from_secs(5));
    signal("-CONT");
    assert!(child.wait().unwrap().success());
}
