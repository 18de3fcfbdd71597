//! A server outage: bounded waiting, bounded memory, and recovery without a restart.

use super::support::{answered, factory, long, redis, until};
use lock_core::{LockErrorKind, LockFactory, LockOptions};
use lock_testkit::{Direction, RedisServer, TcpProxy};
use std::{
    env,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// A holder as written by Redisson.
const SOMEBODY: &str = "b983c153-7421-469a-addb-44fb92259a1b:1";

/// Returns the resident memory of this process, in MiB.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let resident: u64 = pages.split(' ').nth(1).expect("the second number").parse().expect("a number");
    resident * 4 / 1024
}

/// Runs itself in another process, so that the measured memory does not include that of concurrent tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_waiters_survive_an_outage() {
    const WAITERS: usize = 10_000;
    const BUDGET: Duration = Duration::from_secs(3);
    const ALONE: &str = "LOCK_TEN_THOUSAND_WAITERS";
    if env::var_os(ALONE).is_none() {
        let name = "suite::outage::ten_thousand_waiters_survive_an_outage";
        let mut alone = Command::new(env::current_exe().unwrap());
        let status = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").status().unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    let server = RedisServer::start();
    let impatient = LockOptions::new().lease(Duration::from_secs(3)).outage_budget(BUDGET);
    let locks = LockFactory::builder(redis(&server.url()).await).options(impatient).build().unwrap();
    let patient = impatient.outage_budget(Duration::from_secs(120));
    locks.named("warm").unwrap().acquire().await.unwrap().release().await.unwrap();
    let before = memory();
    server.stop();

    let asked = Instant::now();
    let waiting: Vec<_> = (0..WAITERS)
        .map(|number| {
            let lock = locks.named(format!("outage:{}", number % 100)).unwrap();
            let lock = if number % 2 == 0 { lock } else { lock.with_options(patient).unwrap() };
            tokio::spawn(answered(
                "a waiter",
                async move { (lock.acquire().await.map(drop), asked.elapsed()) },
            ))
        })
        .collect();
    let mut patient = Vec::new();
    for (number, waiting) in waiting.into_iter().enumerate() {
        if number % 2 == 1 {
            patient.push(waiting);
            continue;
        }
        let (answer, after) = waiting.await.unwrap();
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        assert!(error.is_retryable() && error.backend_error().is_some(), "{error:?}");
        assert!(after >= BUDGET, "{after:?}");
        assert!(!long() || after < 2 * BUDGET, "{after:?}");
    }
    let grown = memory().saturating_sub(before);
    eprintln!("{WAITERS} waiters without a server: {grown} MiB more");
    assert!(grown < 100, "{grown} MiB");

    server.restart_empty();
    let back = Instant::now();
    for waiting in patient {
        waiting.await.unwrap().0.expect("the server is back");
    }
    eprintln!("{} waiters were served within {:?} of its return", WAITERS / 2, back.elapsed());
    locks.named("after").unwrap().acquire().await.unwrap().release().await.unwrap();
    until("no lock is left", async || {
        server.keys().iter().all(|key| key.starts_with("redisson_lock_token:"))
    })
    .await;
}

/// A single attempt does not wait for the server to return.
#[tokio::test]
async fn one_try_without_a_server_fails_soon_as_not_applied() {
    let server = RedisServer::start();
    let locks = LockFactory::new(redis(&server.url()).await);
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    server.stop();
    until("the outage is noticed", async || {
        let trying = locks.named("x").unwrap().try_acquire();
        let error = answered("one try", trying).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        !error.is_ambiguous()
    })
    .await;
    server.restart();
    until("locks are granted again", async || locks.named("x").unwrap().try_acquire().await.is_ok()).await;
}

#[tokio::test]
async fn health_check_reports_whether_the_server_answers() {
    let server = RedisServer::start();
    let backend = redis(&server.url()).await;
    assert!(backend.is_connected());
    backend.ping().await.expect("present");
    server.stop();
    until("the outage is noticed", async || !backend.is_connected()).await;
    assert_eq!(backend.ping().await.unwrap_err().kind(), LockErrorKind::Unavailable);
    server.restart();
    until("the server answers again", async || backend.ping().await.is_ok()).await;
    assert!(backend.is_connected());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unanswered_forced_release_is_ambiguous() {
    let server = RedisServer::start();
    let proxy = TcpProxy::start(server.address());
    let locks = factory(&proxy.url(), Duration::from_secs(3)).await;
    server.command(&["HSET", "x", SOMEBODY, "1"]);
    // From now on both scripts are known.
    locks.force_release("x").await.unwrap();
    // The inspection gets through, but the reply to the next request does not arrive.
    server.command(&["HSET", "x", SOMEBODY, "1"]);
    let way = Arc::new(proxy);
    let (stop, count) = (way.clone(), Arc::new(AtomicUsize::new(0)));
    way.lose_replies(move |chunk| {
        if chunk.windows(7).any(|word| word == b"EVALSHA") && count.fetch_add(1, SeqCst) == 1 {
            stop.stall(Direction::ToClient);
        }
        false
    });
    let answer = locks.force_release("x").await;
    assert!(server.keys().iter().all(|key| key != "x"), "executed");
    let error = answer.unwrap_err();
    assert!(error.is_ambiguous(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_release_reply_does_not_affect_the_next_holder() {
    let server = RedisServer::start();
    let proxy = TcpProxy::start(server.address());
    let lease = Duration::from_secs(30);
    let (locks, others) = (factory(&proxy.url(), lease).await, factory(&server.url(), lease).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    server.command(&["FLUSHALL"]);
    let other = others.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(guard.is_held() && other.is_held(), "documented: noticed at the next renewal");
    let lost = AtomicUsize::new(0);
    proxy.lose_replies(move |chunk| {
        chunk.windows(4).any(|word| word == b"HDEL") && lost.fetch_add(1, SeqCst) == 0
    });
    let answer = guard.release().await;
    assert!(other.is_held());
    assert!(
        !answer.as_ref().is_ok_and(|outcome| outcome.was_held()),
        "{answer:?}, although another client has held the lock for a second"
    );
}
