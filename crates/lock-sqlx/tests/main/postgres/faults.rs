//! Servers that crash, and connections that fail.

use super::{clients::first_statement, support::Schema};
use crate::support::hold_ends_before_another_is_granted;
use lock_core::{FencingToken, LockErrorKind, LockFactory, LockOptions};
use lock_sqlx::PostgresBackend;
use lock_testkit::{PostgresServer, TcpProxy};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// The settings of the server would lose everything of the last ten seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_loses_no_grant_and_no_renewal() {
    let settings = ["fsync=on", "synchronous_commit=off", "wal_writer_delay=10s"];
    let server = PostgresServer::with_settings(&settings);
    let schema = Schema::on(&server);
    let mut last = FencingToken::new(0);
    for round in 0..4 {
        let locks = schema.locks().await;
        let guard = locks.named(format!("x:{}", round % 2)).unwrap().acquire().await.unwrap();
        server.stop();
        server.restart();
        let others = schema.locks().await;
        let other = others.named(format!("x:{}", round % 2)).unwrap();
        assert!(other.try_acquire().await.unwrap().is_none(), "the grant was lost");
        assert!(guard.fencing_token() > last, "the tokens of a name grow");
        assert!(guard.release().await.unwrap().was_held());
        last = other.acquire_timeout(PATIENCE).await.unwrap().fencing_token();
    }
}

/// Waiters of other processes are woken after a restart of the server, long before the lease would end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_of_the_server_keeps_holds_and_wakes_waiters() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let (locks, others) = (schema.locks().await, schema.locks().await);
    let options = LockOptions::default().lease(Duration::from_secs(120));
    let guard = locks.named("x").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(others.named("x").unwrap().acquire());
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.stop();
    server.restart();
    // The waiter's connection listens again, or its process hears of nothing until the lease ends.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(guard.is_held() && !waiting.is_finished());
    assert!(guard.release().await.unwrap().was_held());
    let newer = tokio::time::timeout(PATIENCE, waiting).await.expect("it is woken").unwrap().unwrap();
    assert!(newer.is_held());
}

/// A client behind a proxy, and others that are not.
async fn behind_a_proxy(server: &PostgresServer) -> (TcpProxy, LockFactory, LockFactory) {
    let (schema, proxy) = (Schema::on(server), TcpProxy::start(server.address()));
    let others = schema.locks().await;
    let url = schema.url().replace(&server.address().to_string(), &proxy.address().to_string());
    (proxy, LockFactory::new(PostgresBackend::connect(&url).await.unwrap()), others)
}

/// An acquire is applied, but its reply is lost, or it is applied after its client has given up. It is undone long before
/// its lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_without_a_reply_leaves_no_lease() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let (proxy, locks, others) = behind_a_proxy(&server).await;
    let lock = locks.named("x").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    for round in 0..4 {
        match round % 2 {
            0 => proxy.lose_replies(first_statement()),
            _ => proxy.capture(first_statement()),
        }
        let error = lock.try_acquire().await.map(|guard| guard.is_some());
        assert!(matches!(&error, Err(error) if error.kind() != LockErrorKind::Backend), "{error:?}");
        proxy.pass();
        if round % 2 == 1 {
            assert_eq!(proxy.captured(), 1);
            tokio::task::block_in_place(|| proxy.deliver_captured());
        }
        let other = others.named("x").unwrap().acquire_timeout(PATIENCE / 3).await.unwrap();
        other.release().await.unwrap();
    }
    assert_eq!(proxy.lost(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hold_ends_in_time_if_the_server_is_not_reached() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let (proxy, locks, others) = behind_a_proxy(&server).await;
    hold_ends_before_another_is_granted(&proxy, &locks, &others).await;
}
