//! Operations that meet a transaction which is not committed yet.

use super::support::Schema;
use crate::support::{
    A_MOMENT, acquire_behind_a_row_is_late, locked_row_delays_no_other_renewal,
    token_behind_a_row_is_drawn_after_it, x as name,
};
use lock_core::{
    LockName,
    backend::{
        Applied, Backend, BackendExt as _, LeaseId, NotifyWaiters, ReleaseRequest, Released, Renewed, Reply,
    },
};
use lock_testkit::contender::{Contender, LONG};
use sqlx::{Executor as _, PgPool, PgTransaction};
use std::{sync::Arc, time::Duration};

/// Asks again while another transaction has the row.
async fn release(backend: Arc<dyn Backend>, lease: LeaseId) -> Reply<Released> {
    loop {
        let request = ReleaseRequest { name: name(), lease, depth_left: 0, notify: NotifyWaiters::Yes };
        match backend.release(request).await {
            Ok(reply) => return reply,
            Err(error) => assert_eq!(error.applied(), Applied::No, "{error}"),
        }
    }
}

/// A release meets the grant of its lease, which is executed but not committed.
async fn waits_for(mut grant: PgTransaction<'static>, schema: &Schema) {
    let backend = schema.store().await.backend;
    let contender = Contender::new(&backend);
    let lease = contender.lease();
    sqlx::query(
        "insert into distlock_lock (name, lease, depth, expires_ms, first, last, keep_ms)
         select 'x', $1, 1, ms + 30000, ms * 1000, ms * 1000, ms + 3600000
         from (select (extract(epoch from clock_timestamp()) * 1000)::bigint as ms) clock
         on conflict (name) do update set lease = excluded.lease, depth = 1, expires_ms = excluded.expires_ms",
    )
    .bind(lease.to_string())
    .execute(&mut *grant)
    .await
    .unwrap();
    let releasing = tokio::spawn(release(backend, lease));
    tokio::time::sleep(A_MOMENT).await;
    assert!(!releasing.is_finished(), "answered before the grant is known: {:?}", releasing.await.unwrap());
    grant.commit().await.unwrap();
    assert!(matches!(releasing.await.unwrap().outcome, Released::Released { .. }));
}

/// Otherwise it would find nothing, and the lease would be an orphan.
#[tokio::test]
async fn release_waits_for_a_grant_that_is_not_committed() {
    let schema = Schema::new();
    let locks = schema.locks().await;
    drop(locks.named("x").unwrap().acquire().await.unwrap().release().await);
    waits_for(schema.pool().await.begin().await.unwrap(), &schema).await;
}

#[tokio::test]
async fn release_waits_for_the_first_grant_of_a_name() {
    let schema = Schema::new();
    drop(schema.client().await);
    waits_for(schema.pool().await.begin().await.unwrap(), &schema).await;
}

/// Locks the row of the lock.
async fn row_of(pool: PgPool) -> PgTransaction<'static> {
    let mut tx = pool.begin().await.unwrap();
    tx.execute("select from distlock_lock where name = 'x' for update").await.unwrap();
    tx
}

/// The clock is read once the row is locked.
#[tokio::test]
async fn acquire_that_waits_beyond_its_time_is_late() {
    let schema = Schema::new();
    let (store, pool) = (schema.store().await, schema.pool().await);
    acquire_behind_a_row_is_late(store, row_of(pool)).await;
}

#[tokio::test]
async fn token_is_drawn_when_the_row_is_locked() {
    let schema = Schema::new();
    let (store, pool) = (schema.store().await, schema.pool().await);
    let now = async |tx: &mut _| {
        sqlx::query_scalar("select (extract(epoch from clock_timestamp()) * 1000000)::bigint")
            .fetch_one(tx)
            .await
            .unwrap()
    };
    token_behind_a_row_is_drawn_after_it(store, row_of(pool), now).await;
}

#[tokio::test]
async fn row_of_another_transaction_delays_no_other_renewal() {
    let schema = Schema::new();
    let (store, pool) = (schema.store().await, schema.pool().await);
    locked_row_delays_no_other_renewal(store, row_of(pool)).await;
}

/// Many rows are locked; they are waited for together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_another_transaction_delay_no_other_renewal() {
    let schema = Schema::new();
    let (backend, pool) = (schema.store().await.backend, schema.pool().await);
    let contender = Contender::new(&backend);
    let names: Vec<_> = (0..40).map(|n| LockName::new(format!("x:{n}")).unwrap()).collect();
    for name in &names {
        contender.take(name, LONG).await;
    }
    let mut tx = pool.begin().await.unwrap();
    sqlx::query("select from distlock_lock where name <> 'x:0' for update").execute(&mut *tx).await.unwrap();
    let begin = std::time::Instant::now();
    backend.renew(vec![contender.renewal(&names[1], LONG)]).await;
    let one = begin.elapsed();
    let items = names.iter().map(|name| contender.renewal(name, LONG)).collect();
    let begin = std::time::Instant::now();
    let replies = backend.renew(items).await;
    let all = begin.elapsed();
    assert_eq!(replies[0].as_ref().unwrap().outcome, Renewed::Renewed);
    assert!(
        all < one * 13,
        "39 locked rows take {all:?}, one takes {one:?}: they were waited for one by one"
    );
    tx.rollback().await.unwrap();
}

/// A report or a backup keeps its transaction open, so the old versions of a hot row pile up. Nothing waits for it. A long
/// run keeps it open for 60 s, and prints how much slower the lock becomes.
#[tokio::test]
async fn open_snapshot_holds_up_nothing() {
    let schema = Schema::new();
    let (locks, pool) = (schema.locks().await, schema.pool().await);
    let lock = locks.named("x").unwrap();
    let mut last = lock.acquire().await.unwrap().fencing_token();
    let mut snapshot = pool.begin_with("begin isolation level repeatable read").await.unwrap();
    let read = "select first from distlock_lock where name = 'x'";
    let seen: i64 = sqlx::query_scalar(read).fetch_one(&mut *snapshot).await.unwrap();
    let long = std::env::var_os("LOCK_LONG").is_some();
    let (begin, mut cycles) = (std::time::Instant::now(), 0);
    let (mut slices, slice) = (Vec::new(), Duration::from_secs(10));
    while if long { begin.elapsed() < slice * 6 } else { cycles < 300 } {
        let guard = lock.acquire().await.unwrap();
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
        assert!(guard.release().await.unwrap().was_held());
        cycles += 1;
        if begin.elapsed() >= slice * (slices.len() as u32 + 1) {
            slices.push(cycles - slices.iter().sum::<u64>());
        }
    }
    println!("cycles in each 10 s beside an open snapshot: {slices:?}");
    let still: i64 = sqlx::query_scalar(read).fetch_one(&mut *snapshot).await.unwrap();
    assert_eq!(still, seen, "the snapshot was open");
}
