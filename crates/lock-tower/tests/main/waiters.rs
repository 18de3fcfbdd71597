//! More waiting requests for one key than allowed.

use crate::support::{World, ask, get, problem, secs};
use axum::{
    Router,
    body::{Body, to_bytes},
    routing::any,
};
use futures_util::poll;
use http::{Request, StatusCode};
use lock_core::LockFactory;
use lock_testkit::{FaultyBackend, Op};
use lock_tower::{KeyTemplate, LockLayer, service::LockService};
use std::{
    sync::{Arc, Mutex},
    task::Poll,
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinSet};
use tower::Service;

const REQUESTS: usize = 12_000;
/// The default of lock-core's `Limits`.
const LIMIT: usize = 10_000;
/// The request that is being served is not a waiter.
const SERVED: usize = LIMIT + 1;

/// Runs in real time on all cores. Rejected requests must not wait behind the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_queue_rejects_immediately() {
    let backend = FaultyBackend::new(lock_core::MemoryBackend::new());
    let locks = LockFactory::new(backend.clone());
    let gate = Arc::new(Semaphore::new(0));
    let waits = gate.clone();
    let handler = async move || drop(waits.acquire().await);
    let app = Router::new().route("/", any(handler));
    let app = app.layer(LockLayer::new(locks.clone()).key("one").wait(secs(600)).max_waiters(usize::MAX));

    let took = Arc::new(Mutex::new(Vec::with_capacity(REQUESTS)));
    let mut requests = JoinSet::new();
    for _ in 0..REQUESTS {
        let (app, took) = (app.clone(), took.clone());
        requests.spawn(async move {
            let began = Instant::now();
            let mut asking = Box::pin(ask(&app, get("/")));
            let answer = match poll!(&mut asking) {
                Poll::Ready(answer) => answer,
                // Requests that are not rejected immediately are eventually served.
                Poll::Pending => {
                    let answer = asking.await;
                    assert_eq!(answer.status(), StatusCode::OK);
                    answer
                }
            };
            let status = answer.status();
            if status != StatusCode::OK {
                took.lock().unwrap().push(began.elapsed());
            }
            to_bytes(answer.into_body(), 1000).await.unwrap();
            status
        });
    }
    while took.lock().unwrap().len() < REQUESTS - SERVED {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let waiting = locks.inspect("one").await.unwrap().waiters;
    gate.add_permits(SERVED);
    let answers = requests.join_all().await;
    let served = answers.iter().filter(|status| **status == StatusCode::OK).count();
    let mut took = took.lock().unwrap().clone();
    took.sort();
    let (slowest, most) = (took[took.len() - 1], took[took.len() * 99 / 100]);
    println!(
        "{served} served, {} rejected, 99 % within {most:?}, the slowest after {slowest:?}",
        REQUESTS - served
    );
    assert!(waiting == LIMIT, "{waiting} waited");
    assert_eq!((served, took.len()), (SERVED, REQUESTS - SERVED));
    // Each was rejected in its first poll. The long tier, on an otherwise idle machine, also bounds
    // the time.
    if std::env::var_os("LOCK_LONG").is_some() {
        assert!(most < Duration::from_millis(50), "rejections took {most:?}");
        assert!(slowest < Duration::from_secs(1), "a rejection took {slowest:?}");
    }
    assert_eq!(backend.most_in_flight(Op::Acquire), 1, "one process is one contender");
    let began = Instant::now();
    while locks.active_locks() > 0 {
        assert!(began.elapsed() < secs(60), "entries remain");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A waiter costs only its request and a queue slot, and rejections do not accumulate memory.
#[tokio::test(start_paused = true)]
async fn waiter_cost_is_bounded() {
    let size = size_of::<<LockService<Router> as Service<Request<Body>>>::Future>();
    println!("a waiting request: {size} bytes in addition to the request");
    assert!(size < 2_000, "{size} bytes");
    let world = World::new();
    let _other = world.another_process().named("one").unwrap().acquire().await.unwrap();
    let layer = || world.layer().key(KeyTemplate::of("one"));
    let app = Router::new().route("/", any(async || "served")).layer(layer().max_waiters(10));
    let mut waiting = JoinSet::new();
    for _ in 0..1000 {
        let app = app.clone();
        waiting.spawn(async move { ask(&app, get("/")).await.status() });
    }
    world.settle().await;
    assert_eq!(world.locks.inspect("one").await.unwrap().waiters, 10);
    assert!(waiting.join_all().await.iter().all(|status| *status == StatusCode::SERVICE_UNAVAILABLE));
    tokio::time::sleep(secs(10)).await;
    assert_eq!(world.locks.active_locks(), 0);
    assert_eq!(world.store.watched(), 0);
}

#[tokio::test(start_paused = true)]
async fn default_limit_is_1000_waiters() {
    let world = World::new();
    let _other = world.another_process().named("one").unwrap().acquire().await.unwrap();
    let app = Router::new().route("/", any(async || "served")).layer(world.layer().key("one"));
    let mut waiting = JoinSet::new();
    for _ in 0..1_100 {
        let app = app.clone();
        waiting.spawn(async move { ask(&app, get("/")).await.status() });
    }
    world.settle().await;
    assert_eq!(world.locks.inspect("one").await.unwrap().waiters, 1_000);
}

#[tokio::test(start_paused = true)]
async fn key_lookups_count_as_waiters() {
    let world = World::new();
    let layer = world.layer().key(KeyTemplate::from_async_fn(|_| std::future::pending())).max_waiters(1);
    let app = Router::new().route("/", any(async || "never")).layer(layer);
    let looks_up = app.clone();
    let _looks_up = tokio::spawn(async move { ask(&looks_up, get("/")).await });
    world.settle().await;
    let began = tokio::time::Instant::now();
    problem(ask(&app, get("/")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(began.elapsed(), Duration::ZERO, "the request was rejected without a lookup");
}
