//! Operations that meet a transaction which is not committed yet.

use super::support::Database;
use crate::support::{
    A_MOMENT, acquire_behind_a_row_is_late, locked_row_delays_no_other_renewal,
    token_behind_a_row_is_drawn_after_it, x as name,
};
use lock_core::{
    LockName, Retention,
    backend::{Acquired, Backend, Released},
};
use lock_testkit::contender::{Contender, LONG, next};
use sqlx::{Executor as _, MySqlPool, MySqlTransaction};
use std::{sync::Arc, time::Duration};

/// A release meets the grant of its lease, which is executed but not committed.
async fn release_waits_for(mut grant: MySqlTransaction<'static>, backend: Arc<dyn Backend>) {
    let contender = Contender::new(&backend);
    let now = backend.server_now(&name()).unwrap().as_millis();
    let insert = "insert into distlock_lock (name, lease, depth, expires_ms, keep_ms) values ('x', ?, 1, ? + 30000, ? + 99999)
         on duplicate key update lease = values(lease), depth = 1, expires_ms = values(expires_ms)";
    let insert = sqlx::query(insert).bind(contender.lease().to_string().into_bytes()).bind(now).bind(now);
    insert.execute(&mut *grant).await.unwrap();
    let releasing = tokio::spawn(async move { contender.release(&name(), 0).await });
    tokio::time::sleep(A_MOMENT).await;
    assert!(!releasing.is_finished(), "answered before the grant is known: {:?}", releasing.await.unwrap());
    grant.commit().await.unwrap();
    assert!(matches!(releasing.await.unwrap(), Released::Released { .. }));
}

/// Otherwise it would find nothing, and the lease would be an orphan.
#[tokio::test]
async fn release_waits_for_a_grant_that_is_not_committed() {
    let database = Database::new();
    let (backend, pool) = (database.store().await.backend, database.pool().await);
    // The first grant of the name, and another one.
    for _ in 0..2 {
        release_waits_for(pool.begin().await.unwrap(), backend.clone()).await;
    }
}

/// Locks the row of the lock.
async fn row_of(pool: MySqlPool) -> MySqlTransaction<'static> {
    let mut tx = pool.begin().await.unwrap();
    tx.execute("select 1 from distlock_lock where name = 'x' for update").await.unwrap();
    tx
}

/// The clock is read once the row is locked.
#[tokio::test]
async fn acquire_that_waits_beyond_its_time_is_late() {
    let database = Database::new();
    let (store, pool) = (database.store().await, database.pool().await);
    acquire_behind_a_row_is_late(store, row_of(pool)).await;
}

#[tokio::test]
async fn token_is_drawn_when_the_row_is_locked() {
    let database = Database::new();
    let (store, pool) = (database.store().await, database.pool().await);
    let now = async |tx: &mut _| {
        sqlx::query_scalar("select timestampdiff(microsecond, '1970-01-01', sysdate(6))")
            .fetch_one(tx)
            .await
            .unwrap()
    };
    token_behind_a_row_is_drawn_after_it(store, row_of(pool), now).await;
}

#[tokio::test]
async fn row_of_another_transaction_delays_no_other_renewal() {
    let database = Database::new();
    let (store, pool) = (database.store().await, database.pool().await);
    locked_row_delays_no_other_renewal(store, row_of(pool)).await;
}

/// The reply to a grant is lost, and a transaction has the fence when the acquire is repeated. The answer must not say that
/// nothing is left of the first attempt.
#[tokio::test]
async fn own_lease_behind_a_fence_is_not_forgotten() {
    let database = Database::new();
    let (backend, pool) = (database.store().await.backend, database.pool().await);
    let contender = Contender::new(&backend);
    let mut first = contender.request(&name(), LONG, next(0, None)).await;
    first.not_after = first.not_after - Duration::from_secs(60) + A_MOMENT;
    assert!(matches!(contender.send(first.clone()).await.outcome, Acquired::Granted { .. }));
    let mut tx = pool.begin().await.unwrap();
    tx.execute("select first, last from distlock_fence where name = 'x' lock in share mode").await.unwrap();
    tokio::time::sleep(A_MOMENT * 2).await;
    let second = contender.request(&name(), LONG, next(0, None)).await;
    let reply = contender.send(second).await;
    assert!(matches!(reply.outcome, Acquired::Busy { .. }) && reply.now <= first.not_after, "{reply:?}");
    tx.rollback().await.unwrap();
}

/// Counters that expire at once, sweeps all the time, and several clients that meet at the same names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweeps_disturb_no_request() {
    let database = Database::new();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let backend = database.store().await.backend;
        tasks.spawn(async move {
            for round in 0..150 {
                let (contender, name) =
                    (Contender::new(&backend), LockName::new(format!("x:{}", round % 3)).unwrap());
                let mut request = contender.request(&name, LONG, next(0, None)).await;
                request.retention = Retention::For(Duration::from_millis(1));
                // Neither fails.
                let acquired = contender.send(request).await.outcome;
                let released = contender.release(&name, 0).await;
                let is_held = matches!(acquired, Acquired::Granted { .. });
                assert_eq!(
                    matches!(released, Released::Released { .. }),
                    is_held,
                    "{acquired:?} {released:?}"
                );
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}
