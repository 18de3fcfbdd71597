//! Operations that meet a transaction which is not committed yet.

use super::support::Schema;
use lock_core::{
    LockName,
    backend::{
        AcquireRequest, Acquired, Applied, Backend, BackendExt as _, LeaseId, NotifyWaiters, ReleaseRequest,
        Released, Renewed, Reply,
    },
    clock::UtcTime,
};
use lock_testkit::contender::{Contender, LONG};
use sqlx::PgTransaction;
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// Shorter than the time that a statement waits for a row.
const A_MOMENT: Duration = Duration::from_millis(100);

fn name() -> LockName {
    LockName::new("x").unwrap()
}

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

/// A request that waits for a row, and the transaction that has it.
async fn behind_the_row(
    schema: &Schema,
    change: impl FnOnce(&mut AcquireRequest),
) -> (PgTransaction<'static>, JoinHandle<Reply<Acquired>>) {
    let (backend, pool) = (schema.store().await.backend, schema.pool().await);
    let contender = Contender::new(&backend);
    let tokens = contender.take(&name(), LONG).await;
    assert!(tokens.first <= tokens.last);
    release(backend.clone(), contender.lease()).await;
    let mut tx = pool.begin().await.unwrap();
    sqlx::query("select from distlock_lock where name = 'x' for update").execute(&mut *tx).await.unwrap();
    let other = Contender::new(&backend);
    let mut request = other.request(&name(), LONG, lock_testkit::contender::next(0, None)).await;
    change(&mut request);
    let waiting = tokio::spawn(async move { other.send(request).await });
    tokio::time::sleep(A_MOMENT).await;
    (tx, waiting)
}

/// The clock is read once the row is locked.
#[tokio::test]
async fn acquire_that_waits_beyond_its_time_is_late() {
    let schema = Schema::new();
    let (tx, waiting) = behind_the_row(&schema, |request| {
        // It has a few milliseconds to reach the row.
        request.not_after = request.not_after - Duration::from_secs(60) + A_MOMENT / 2;
    })
    .await;
    tx.rollback().await.unwrap();
    assert_eq!(waiting.await.unwrap().outcome, Acquired::Late);
}

#[tokio::test]
async fn token_is_drawn_when_the_row_is_locked() {
    let schema = Schema::new();
    let (mut tx, waiting) = behind_the_row(&schema, |_| {}).await;
    let now: i64 = sqlx::query_scalar("select (extract(epoch from clock_timestamp()) * 1000000)::bigint")
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    tx.rollback().await.unwrap();
    let reply = waiting.await.unwrap();
    match reply.outcome {
        Acquired::Granted { first, .. } => {
            assert!(first.as_i64() > now, "it was drawn before the row was locked");
            assert!(reply.now > UtcTime::from_micros(u64::try_from(now).unwrap()));
        }
        // A slow machine: the row was locked for longer than a statement waits.
        other => assert!(matches!(other, Acquired::Busy { .. }), "{other:?}"),
    }
}

/// The row of one lock is locked for a long time; the others of the same batch are renewed at once.
#[tokio::test]
async fn row_of_another_transaction_delays_no_other_renewal() {
    let schema = Schema::new();
    let (backend, pool) = (schema.store().await.backend, schema.pool().await);
    let contender = Contender::new(&backend);
    let names: Vec<_> = ["w", "x", "y"].map(|name| LockName::new(name).unwrap()).into();
    for name in &names {
        contender.take(name, LONG).await;
    }
    let mut tx = pool.begin().await.unwrap();
    sqlx::query("select from distlock_lock where name = 'x' for update").execute(&mut *tx).await.unwrap();
    let items = names.iter().map(|name| contender.renewal(name, LONG)).collect();
    let replies = backend.renew(items).await;
    let outcomes: Vec<_> = replies.into_iter().map(|reply| reply.map(|reply| reply.outcome)).collect();
    assert_eq!(*outcomes[0].as_ref().unwrap(), Renewed::Renewed);
    let error = outcomes[1].as_ref().unwrap_err();
    assert!(error.is_retryable() && error.applied() == Applied::No, "skipped is not gone: {error:?}");
    assert_eq!(*outcomes[2].as_ref().unwrap(), Renewed::Renewed);
    tx.rollback().await.unwrap();
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
