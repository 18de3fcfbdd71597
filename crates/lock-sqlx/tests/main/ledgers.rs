//! The run ledger in databases: lost clients, records of others, what waits for what.

use crate::{
    postgres::support::Schema,
    sqlite::support::LockFile,
    support::{PATIENCE, job, start},
};
use lock_core::LockFactory;
use lock_ledger::{Registration, RenewRun};
use lock_testkit::PostgresServer;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// A lock does not wait for all transactions of the ledger that wait for the file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_transactions_do_not_hold_up_locks() {
    let file = LockFile::new();
    let client = file.client().await;
    let (ledger, locks) = (client.ledger(), LockFactory::new(client.clone()));
    let done = Arc::new(AtomicU32::new(0));
    for n in 0..256 {
        let (ledger, done) = (ledger.clone(), done.clone());
        tokio::spawn(async move {
            let jobs = vec![Registration { job: job(&format!("j{n}")).name, schedule: 0 }];
            ledger.register(job("j").group, jobs).await.unwrap();
            done.fetch_add(1, Ordering::SeqCst);
        });
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    let at = done.load(Ordering::SeqCst);
    let _guard = locks.named("x").unwrap().acquire().await.unwrap();
    let ahead = done.load(Ordering::SeqCst) - at;
    assert!(ahead < 32, "the lock waited for {ahead} transactions of the ledger");
}

/// A later version has claimed a run whose id this version does not know, and writes other claims.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_a_later_version_are_preserved() {
    let schema = Schema::new();
    let (ledger, pool) = (schema.client().await.ledger(), schema.pool().await);
    sqlx::query(
        "insert into distlock_run values ('g', 'claim', 'k' || chr(10) || 'event:7', 'x', false, false)",
    )
    .execute(&pool)
    .await
    .unwrap();
    start(&ledger, "j", PATIENCE).await;
    sqlx::query("update distlock_run set data = 'y finished' where kind = 'claim' and data <> 'x'")
        .execute(&pool)
        .await
        .unwrap();
    let open = tokio::time::timeout(PATIENCE, ledger.open_runs(job("j").group)).await.expect("it ends");
    assert_eq!(open.unwrap().outcome.len(), 1);
    let left: i64 = sqlx::query_scalar(
        "select count(*) from distlock_run where kind = 'claim' and data in ('x', 'y finished')",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!(left, 2);
}

/// A node freezes, or loses the network, while it is in a transaction of the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_node_does_not_stop_the_group() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let others = schema.client().await.ledger();
    let proxy = lock_testkit::TcpProxy::start(server.address());
    let url = schema.url().replace(&server.address().to_string(), &proxy.address().to_string());
    let frozen = lock_sqlx::PostgresBackend::connect(&url).await.unwrap().ledger();
    let run = start(&others, "j", PATIENCE).await;
    // A network of 20 ms, so that it is usually in a transaction.
    proxy.delay(Duration::from_millis(10));
    let item = RenewRun { job: run.job().name.clone(), run: run.run(), claim: run.claim(), lease: PATIENCE };
    let items = vec![item];
    let renews = items.clone();
    let node = tokio::spawn(async move {
        loop {
            let _ = frozen.renew(job("j").group, renews.clone()).await;
        }
    });
    let pool = schema.pool().await;
    // Until it has the lock of the group.
    loop {
        let held: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity where state = 'idle in transaction' and application_name = 'distlock'",
        )
        .fetch_one(&pool)
        .await
        .unwrap();
        let locks: i64 =
            sqlx::query_scalar("select count(*) from pg_locks where locktype = 'advisory' and granted")
                .fetch_one(&pool)
                .await
                .unwrap();
        if held > 0 && locks > 0 {
            proxy.stall(lock_testkit::Direction::ToServer);
            proxy.stall(lock_testkit::Direction::ToClient);
            tokio::time::sleep(Duration::from_millis(100)).await;
            let locks: i64 =
                sqlx::query_scalar("select count(*) from pg_locks where locktype = 'advisory' and granted")
                    .fetch_one(&pool)
                    .await
                    .unwrap();
            if locks > 0 {
                break;
            }
            proxy.pass();
            proxy.delay(Duration::from_millis(10));
        }
    }
    // The node's own requests time out, and it gives up.
    node.abort();
    let renewed = async { while others.renew(job("j").group, items.clone()).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(60), renewed).await.expect("another node can renew");
}
