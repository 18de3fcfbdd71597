//! A separate worker: tasks that compute for long, threads without a runtime, runtimes that end.

use super::support::{HANGS, grow_old, has, until};
use crate::client::RedisBackendBuilder;
use lock_core::{LockFactory, LockGuard, LockOptions, LostReason, Store, Worker};
use lock_testkit::RedisServer;
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

const LEASE: Duration = Duration::from_secs(2);

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn connect(url: &str, worker: Option<Worker>) -> LockFactory {
    let mut builder = RedisBackendBuilder::from_url(url).unwrap();
    if let Some(worker) = worker {
        builder = builder.worker(worker);
    }
    let backend = builder.connect().await.unwrap();
    LockFactory::builder(backend).options(LockOptions::new().lease(LEASE)).build().unwrap()
}

/// Acquires a lock, and keeps the application's only thread busy for three leases. Returns the guard, and `true` if the
/// server still has the lease then.
async fn spins_under_a_lock(server: &RedisServer, worker: Option<Worker>) -> (bool, LockGuard) {
    let locks = connect(&server.url(), worker).await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let begin = Instant::now();
    while begin.elapsed() < 3 * LEASE {
        spin_loop();
    }
    (has(server, "x"), guard)
}

#[test]
fn spinning_application_keeps_its_lock_with_a_worker() {
    let server = RedisServer::start();
    current().block_on(async {
        let (is_stored, guard) = spins_under_a_lock(&server, Some(Worker::thread().unwrap())).await;
        assert!(is_stored && guard.is_held());
        assert!(guard.release().await.unwrap().was_held());
    });
    assert!(!has(&server, "x"));
}

#[test]
fn spinning_application_notices_its_loss_without_a_worker() {
    let server = RedisServer::start();
    current().block_on(async {
        let (is_stored, guard) = spins_under_a_lock(&server, None).await;
        assert!(!is_stored && !guard.is_held());
        assert_eq!(guard.lost().await, LostReason::Expired);
    });
}

#[test]
fn connections_outlive_the_runtime_that_connected() {
    let server = RedisServer::start();
    let (first, second) = (current(), current());
    let worker = Worker::thread().unwrap();
    let locks = first.block_on(connect(&server.url(), Some(worker)));
    let lock = locks.named("x").unwrap();
    let guard = first.block_on(lock.acquire()).unwrap();
    drop(first);
    thread::sleep(2 * LEASE);
    assert!(guard.is_held());
    assert!(second.block_on(guard.release()).unwrap().was_held());
    assert!(second.block_on(locks.shutdown()).is_clean());
}

#[test]
fn threads_without_a_runtime_exclude_each_other() {
    let server = RedisServer::start();
    let locks = current().block_on(connect(&server.url(), Some(Worker::thread().unwrap())));
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

#[test]
fn quorum_is_used_from_a_thread() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    servers.iter().for_each(grow_old);
    let hosts: Vec<_> = servers.iter().map(|server| server.url().replace("redis://", "")).collect();
    let url = format!("redlock://{}", hosts.join(","));
    let builder = RedisBackendBuilder::from_url(&url).unwrap().worker(Worker::thread().unwrap());
    let store: Store = current().block_on(builder.connect_store()).unwrap();
    let locks = LockFactory::new(store);
    let guard = locks.named("x").unwrap().acquire_timeout_blocking(HANGS).unwrap();
    assert!(servers.iter().filter(|server| has(server, "x")).count() >= 2);
    assert!(guard.release_blocking().unwrap().was_held());
}

#[test]
fn thread_ends_with_the_last_backend() {
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
    let builder = RedisBackendBuilder::from_url(&server.url()).unwrap().worker(worker);
    let backend = runtime.block_on(builder.connect()).unwrap();
    let locks = LockFactory::new(backend.clone());
    drop(locks.named("x").unwrap().acquire_blocking().unwrap());
    drop(locks);
    runtime.block_on(backend.ping()).expect("connections live as long as their backend");
    assert!(ended.upgrade().is_some());
    drop(backend);
    runtime.block_on(until("the thread ends with its last owner", async || ended.upgrade().is_none()));
}
