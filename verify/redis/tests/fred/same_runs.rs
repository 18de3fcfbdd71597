//! Redis and the rules of the run ledger give the same answers, over random sequences of operations.

use crate::suite::support::redis;
use lock_testkit::{LedgerRun, RedisServer, Seed};
use std::sync::Arc;

const STEPS: usize = 10_000;

#[tokio::test]
async fn random_operations_on_runs_are_answered_by_the_rules() {
    let server = RedisServer::start();
    let mut run = LedgerRun::new(Arc::new(redis(&server.url()).await), Seed::of_this_run()).await;
    // Rare answers also depend on the speed of the machine.
    for step in 0..10 * STEPS {
        if step >= STEPS && run.has_seen_all(10) {
            break;
        }
        run.step().await;
    }
    run.read().await;
    assert!(run.has_seen_all(1), "some kinds of answers did not come: {:?}", run.seen());
}
