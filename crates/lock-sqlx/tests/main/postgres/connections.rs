//! Connections that are lost without a word, and commits that take long.

use super::{
    clients::{Firewall, SOON, lock, run},
    support::Schema,
};
use lock_core::{LockFactory, LockOptions};
use lock_sqlx::PostgresBackend;
use lock_testkit::PostgresServer;
use sqlx::PgPool;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The commit of an attempt takes longer than its time (a synchronous standby is slow), and the attempt is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_with_a_slow_commit_leaves_no_orphan() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let locks = schema.locks().await;
    let options = LockOptions::default().operation_timeout(Duration::from_secs(1)).outage_budget(SOON * 6);
    let lock = lock(&locks, "x", options);
    lock.acquire().await.unwrap().release().await.unwrap();
    let pool = PgPool::connect(&server.url()).await.unwrap();
    run(&pool, "alter system set synchronous_standby_names = 'nobody'").await;
    run(&pool, "select pg_reload_conf()").await;
    sleep(Duration::from_millis(500)).await;
    let waiting = tokio::spawn(lock.acquire());
    sleep(Duration::from_secs(4)).await;
    run(&pool, "alter system reset synchronous_standby_names").await;
    run(&pool, "select pg_reload_conf()").await;
    // Its own attempt is committed by now, and undone.
    drop(timeout(SOON * 2, waiting).await.expect("it is granted").unwrap().unwrap());
}

/// All connections were forgotten; new ones pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_connections_fail_few_acquires() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let firewall = Firewall::start(server.address()).await;
    let url = schema.url().replace(&server.address().to_string(), &firewall.address.to_string());
    let locks = LockFactory::new(PostgresBackend::connect(&format!("{url}&connections=8")).await.unwrap());
    let all = (0..64).map(|n| locks.named(format!("y:{n}")).unwrap().acquire());
    let guards = futures_util::future::join_all(all).await;
    for guard in guards {
        guard.unwrap().release().await.unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    firewall.forget();
    let mut failed = 0;
    while locks.named("x").unwrap().try_acquire().await.is_err() {
        failed += 1;
    }
    assert!(failed <= 2, "{failed} acquires in a row failed");
}
