//! Locks behind a pooler that gives each transaction any of two connections.

use super::support::Schema;
use lock_testkit::{RulesRun, Seed};
use std::time::Duration;

#[tokio::test]
async fn random_operations_are_answered_as_the_store_rules_say() {
    let schema = Schema::pooled().await;
    let mut run = RulesRun::new(schema.store().await.backend, Seed::of_this_run());
    for _ in 0..500 {
        run.step().await;
    }
    assert!(run.seen().len() >= 9, "some kinds of answers are missing: {:?}", run.seen());
}

/// The statements of many clients meet on the same connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_one_pooler_exclude_one_another() {
    let schema = Schema::pooled().await;
    let number = std::sync::Arc::new(std::sync::Mutex::new(0_u32));
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let (locks, number) = (schema.locks().await, number.clone());
        tasks.push(tokio::spawn(async move {
            let lock = locks.named("x").unwrap();
            for _ in 0..10 {
                let guard = lock.acquire_timeout(Duration::from_secs(60)).await.unwrap();
                let before = *number.lock().unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                *number.lock().unwrap() = before + 1;
                assert!(guard.release().await.unwrap().was_held());
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*number.lock().unwrap(), 60);
}
