//! The databases and the rules give the same answers, over random sequences of operations.

use crate::{mysql::support::Database, postgres::support::Schema, sqlite::support::LockFile};
use lock_core::Store;
use lock_ledger::RunLedger;
use lock_testkit::{LedgerRun, PermitRun, RulesRun, Seed};
use std::{env, sync::Arc};

/// The number of operations of each kind in a long run; otherwise a twentieth of it.
const OPERATIONS: u64 = 50_000;

fn operations() -> u64 {
    if env::var_os("LOCK_LONG").is_some() { OPERATIONS } else { OPERATIONS / 20 }
}

async fn compare_locks(store: Store) {
    let mut run = RulesRun::new(store.backend, Seed::of_this_run());
    for _ in 0..operations() {
        run.step().await;
    }
    assert!(run.seen().len() >= 11, "some kinds of answers are missing: {:?}", run.seen());
}

async fn compare_permits(store: Store) {
    let mut run = PermitRun::new(store.backend, Seed::of_this_run());
    for _ in 0..operations() / 8 {
        run.step(4).await;
    }
    assert!(run.seen().len() == 8, "some kinds of answers are missing: {:?}", run.seen());
}

async fn compare_runs(ledger: Arc<dyn RunLedger>) {
    let mut run = LedgerRun::new(ledger, Seed::of_this_run()).await;
    for _ in 0..operations() {
        run.step().await;
    }
    run.read().await;
    assert!(run.seen().len() >= 32, "some kinds of answers are missing: {:?}", run.seen());
}

#[tokio::test]
async fn mariadb_answers_as_the_store_rules_say() {
    let database = Database::new();
    compare_locks(database.store().await).await;
}

#[tokio::test]
async fn postgres_answers_as_the_store_rules_say() {
    let schema = Schema::new();
    compare_locks(schema.store().await).await;
}

#[tokio::test]
async fn sqlite_answers_as_the_store_rules_say() {
    let file = LockFile::new();
    compare_locks(file.store().await).await;
}

#[tokio::test]
async fn batches_in_sqlite_are_answered_as_the_store_rules_say() {
    let file = LockFile::new();
    let mut run = RulesRun::new(file.store().await.backend, Seed::of_this_run());
    for _ in 0..operations() / 20 {
        run.batch().await;
    }
    assert!(run.seen().len() >= 9, "some kinds of answers are missing: {:?}", run.seen());
}

#[tokio::test]
async fn postgres_answers_as_the_rules_of_pools_say() {
    let schema = Schema::new();
    compare_permits(schema.store().await).await;
}

#[tokio::test]
async fn postgres_behind_a_pooler_answers_as_the_rules_of_pools_say() {
    let schema = Schema::pooled().await;
    compare_permits(schema.store().await).await;
}

#[tokio::test]
async fn sqlite_answers_as_the_rules_of_pools_say() {
    let file = LockFile::new();
    compare_permits(file.store().await).await;
}

#[tokio::test]
async fn postgres_answers_as_the_rules_of_runs_say() {
    let schema = Schema::new();
    compare_runs(schema.client().await.ledger()).await;
}

#[tokio::test]
async fn sqlite_answers_as_the_rules_of_runs_say() {
    let file = LockFile::new();
    compare_runs(file.client().await.ledger()).await;
}
