//! A standby takes the place of the server.

use super::{clients::run, support::Schema};
use lock_core::LockErrorKind;
use lock_sqlx::PostgresBackend;
use lock_testkit::PostgresServer;
use sqlx::PgPool;
use std::{error::Error as _, time::Duration};
use tokio::time::sleep;

/// A server and a standby that has all its tables.
async fn pair() -> (PostgresServer, PostgresServer, Schema) {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    drop(schema.client().await);
    let standby = server.standby();
    (server, standby, schema)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_is_refused_until_it_is_promoted() {
    let (_server, standby, schema) = pair().await;
    let url = schema.elsewhere(&standby).url().replace("migrate=true", "migrate=false");
    let error = PostgresBackend::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    assert!(error.source().unwrap().to_string().contains("connect to the primary"), "{error:?}");
    standby.promote();
    PostgresBackend::connect(&url).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_to_a_synchronous_standby_loses_no_grant() {
    let (server, standby, schema) = pair().await;
    let pool = PgPool::connect(&server.url()).await.unwrap();
    run(&pool, "alter system set synchronous_standby_names = '*'").await;
    run(&pool, "select pg_reload_conf()").await;
    sleep(Duration::from_millis(500)).await;
    let locks = schema.locks().await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    server.stop();
    standby.promote();
    let others = schema.elsewhere(&standby).locks().await;
    assert!(others.named("x").unwrap().try_acquire().await.unwrap().is_none(), "the grant was lost");
    let next = others.named("y").unwrap().acquire().await.unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
}

/// The lock is granted again, with a greater token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_to_an_asynchronous_standby_lowers_no_token() {
    let (server, standby, schema) = pair().await;
    standby.stop();
    let guard = schema.locks().await.named("x").unwrap().acquire().await.unwrap();
    server.stop();
    standby.restart();
    standby.promote();
    let others = schema.elsewhere(&standby).locks().await;
    let next = others.named("x").unwrap().acquire().await.unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
}
