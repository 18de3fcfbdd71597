//! SQLite and the store rules give the same answers, over random sequences of operations.

use crate::sqlite::support::LockFile;
use lock_testkit::{LedgerRun, RulesRun, Seed};
use std::env;

/// The number of operations of each kind in a long run; otherwise a twentieth of it.
const OPERATIONS: u64 = 50_000;

fn operations() -> u64 {
    if env::var_os("LOCK_LONG").is_some() { OPERATIONS } else { OPERATIONS / 20 }
}

#[tokio::test]
async fn random_operations_are_answered_as_the_store_rules_say() {
    let file = LockFile::new();
    let mut run = RulesRun::new(file.store().await.backend, Seed::of_this_run());
    for _ in 0..operations() {
        run.step().await;
    }
    assert!(run.seen().len() >= 11, "some kinds of answers are missing: {:?}", run.seen());
}

#[tokio::test]
async fn random_batches_are_answered_as_the_store_rules_say() {
    let file = LockFile::new();
    let mut run = RulesRun::new(file.store().await.backend, Seed::of_this_run());
    for _ in 0..operations() / 20 {
        run.batch().await;
    }
    assert!(run.seen().len() >= 9, "some kinds of answers are missing: {:?}", run.seen());
}

#[tokio::test]
async fn random_operations_on_runs_are_answered_by_the_rules() {
    let file = LockFile::new();
    let mut run = LedgerRun::new(file.client().await.ledger(), Seed::of_this_run()).await;
    for _ in 0..operations() {
        run.step().await;
    }
    run.read().await;
    assert!(run.seen().len() >= 32, "some kinds of answers are missing: {:?}", run.seen());
}
