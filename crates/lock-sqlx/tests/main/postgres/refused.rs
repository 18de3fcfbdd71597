//! Databases that cannot be used.

use super::{clients::run, support::Schema};
use lock_core::{LockErrorKind, LockFactory};
use lock_sqlx::PostgresBackend;
use lock_testkit::{PostgresServer, unused_address};
use std::error::Error as _;

async fn refusal(url: &str) -> (LockErrorKind, String) {
    let error = PostgresBackend::connect(url).await.unwrap_err();
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    (error.kind(), format!("{error} {source}"))
}

async fn is_refused(url: &str, kind: LockErrorKind, remedy: &str) {
    let (actual, text) = refusal(url).await;
    assert_eq!(actual, kind, "{text}");
    assert!(text.contains(remedy), "{text}");
}

#[tokio::test]
async fn database_without_tables_is_refused_until_they_are_created() {
    let schema = Schema::new();
    let url = schema.url().replace("migrate=true", "migrate=false");
    is_refused(&url, LockErrorKind::Backend, "distlock::sql::migrate(url)").await;
    let lazy = LockFactory::new(PostgresBackend::connect_lazy(&url).unwrap());
    assert_eq!(lazy.named("x").unwrap().try_acquire().await.unwrap_err().kind(), LockErrorKind::Backend);
    // By several programs at once.
    let all = futures_util::future::join_all((0..4).map(|_| lock_sqlx::migrate(&url))).await;
    all.into_iter().for_each(|migrated| migrated.unwrap());
    assert!(lazy.named("x").unwrap().try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn tables_of_a_newer_version_are_refused() {
    let schema = Schema::new();
    drop(schema.client().await);
    sqlx::query("update distlock_meta set version = 2").execute(&schema.pool().await).await.unwrap();
    is_refused(&schema.url(), LockErrorKind::Backend, "update the program").await;
}

#[tokio::test]
async fn missing_rights_name_the_grants() {
    let schema = Schema::new();
    drop(schema.client().await);
    let (pool, name) = (schema.pool().await, schema.name());
    let run = async |text: String| sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(&pool).await.unwrap();
    run(format!("create role guest_{name} login")).await;
    let url =
        schema.url().replace("testkit@", &format!("guest_{name}@")).replace("migrate=true", "migrate=false");
    is_refused(&url, LockErrorKind::Backend, "usage of their schema").await;
    run(format!("grant usage on schema {name} to guest_{name}")).await;
    let remedy = "grant select, insert, update, delete on";
    is_refused(&url, LockErrorKind::Backend, remedy).await;
    run(format!("grant select on all tables in schema {name} to guest_{name}")).await;
    is_refused(&url, LockErrorKind::Backend, remedy).await;
    for table in ["lock", "fence", "card", "run"] {
        run(format!("grant insert, update, delete on {name}.distlock_{table} to guest_{name}")).await;
    }
    let locks = LockFactory::new(PostgresBackend::connect(&url).await.unwrap());
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn unsafe_settings_are_refused() {
    let server = PostgresServer::start();
    is_refused(&Schema::on(&server).url(), LockErrorKind::Backend, "fsync = off").await;
    let settings = ["fsync=on", "default_transaction_isolation=serializable"];
    let server = PostgresServer::with_settings(&settings);
    is_refused(&Schema::on(&server).url(), LockErrorKind::Backend, "read committed").await;
}

#[tokio::test]
async fn server_that_is_not_there_is_unavailable() {
    let url = format!("postgres://testkit@{}/postgres", unused_address());
    is_refused(&url, LockErrorKind::Unavailable, "failed to connect").await;
    is_refused(
        &Schema::new().url().replace("/postgres?", "/missing?"),
        LockErrorKind::Backend,
        "does not exist",
    )
    .await;
}

/// The schema exists; the user may create tables in it, but no schema.
#[tokio::test]
async fn existing_schema_needs_no_right_to_create_schemas() {
    let schema = Schema::new();
    let (pool, name) = (schema.pool().await, schema.name());
    run(&pool, &format!("create role owner_{name} login; create schema {name} authorization owner_{name}"))
        .await;
    let url = schema.url().replace("testkit@", &format!("owner_{name}@"));
    if let Err(error) = lock_sqlx::migrate(&url).await {
        panic!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
    }
}
