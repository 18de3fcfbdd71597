//! The facade's connections by URL, and the use of its parts together.

#![cfg(feature = "fred")]

use distlock::LockErrorKind;
use lock_testkit::RedisServer;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn factories_with_one_url_exclude_each_other() {
    let server = RedisServer::start();
    let (ours, theirs) =
        (distlock::connect(&server.url()).await.unwrap(), distlock::connect(&server.url()).await.unwrap());
    let guard = ours.named("stock:42").unwrap().acquire().await.unwrap();
    assert!(theirs.named("stock:42").unwrap().try_acquire().await.unwrap().is_none());
    let token = guard.fencing_token();
    guard.release().await.unwrap();
    let guard = theirs.named("stock:42").unwrap().try_acquire().await.unwrap().expect("the lock is free");
    assert!(guard.fencing_token() > token);
    guard.release().await.unwrap();
}

/// The program serves what needs no lock, and is not ready, until the server is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_starts_before_its_server() {
    let server = RedisServer::start();
    server.stop();
    let locks = distlock::connect_lazy(&server.url()).unwrap();
    let (_, ledger) = distlock::connect_with_ledger_lazy(&server.url()).unwrap();
    let health = locks.health().await;
    assert!(
        !health.is_healthy() && health.to_string().starts_with("the store is not answering: "),
        "{health}"
    );
    assert!(health.to_string().contains("Connection refused"), "{health}");
    let waiting = tokio::spawn(locks.named("stock:42").unwrap().acquire());
    server.restart();
    waiting.await.unwrap().expect("the server is there").release().await.unwrap();
    // A check is reported again for a second.
    while !locks.health().await.is_healthy() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let group = distlock::ledger::GroupName::new("billing").unwrap();
    while ledger.controls(group.clone(), 0).await.is_err() {}
}

#[tokio::test]
async fn lazy_connections_check_their_url_at_once() {
    for url in ["carrier-pigeon://coop", "redis://host:99999", "rediss://host?authority=/there/is/no/file"] {
        assert_eq!(distlock::connect_lazy(url).unwrap_err().kind(), LockErrorKind::InvalidUrl, "{url}");
    }
    assert_eq!(distlock::connect_lazy("redlock://a,b,c").unwrap_err().kind(), LockErrorKind::Backend);
    let locks = distlock::connect_lazy("memory:").unwrap();
    locks.named("stock:42").unwrap().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn memory_locks_need_no_server() {
    let locks = distlock::connect("memory:").await.unwrap();
    locks.named("stock:42").unwrap().acquire().await.unwrap().release().await.unwrap();
    locks.shutdown().await;
}

#[tokio::test]
async fn unknown_scheme_error_lists_known_schemes() {
    let error = distlock::connect("carrier-pigeon://coop").await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidUrl);
    assert!(error.to_string().contains("redis"), "{error}");
}

#[tokio::test]
async fn quorum_is_rejected_as_a_ledger() {
    let error = distlock::connect_with_ledger("redlock://a,b,c").await.map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Backend);
    assert!(format!("{error:#}").contains("no run ledger"), "{error:#}");
}

#[tokio::test]
async fn only_unnamed_memory_store_has_a_ledger() {
    let (locks, _) = distlock::connect_with_ledger("memory:").await.unwrap();
    locks.named("stock:42").unwrap().acquire().await.unwrap().release().await.unwrap();
    locks.shutdown().await;
    let error = distlock::connect_with_ledger("memory:shop").await.map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidUrl);
    assert!(format!("{error:#}").contains("use `memory:` without a name"), "{error:#}");
}

#[cfg(feature = "cron")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scheduler_runs_with_one_url() {
    use distlock::cron::{RunContext, Schedule, Scheduler};
    use tokio::sync::mpsc;

    let server = RedisServer::start();
    let (locks, ledger) = distlock::connect_with_ledger(&server.url()).await.unwrap();
    let cron = Scheduler::builder(locks.clone(), ledger).group("facade").build().unwrap();
    let (ran, mut runs) = mpsc::unbounded_channel();
    cron.job("tick", Schedule::every(Duration::from_secs(1)).unwrap(), move |run: RunContext| {
        let ran = ran.clone();
        async move {
            ran.send(run.fencing_token()).ok();
            Ok(())
        }
    })
    .register()
    .unwrap();
    let stop = async { runs.recv().await.expect("the job runs") };
    let mut first = None;
    cron.run_until(async { first = Some(stop.await) }).await.unwrap();
    assert!(first.is_some());
    locks.shutdown().await;
}
