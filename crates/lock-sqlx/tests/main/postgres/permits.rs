//! Permits: writes that are late or not committed, clients that disturb one another, and databases of an earlier version.

use super::{
    clients::{is_woken, patient, run},
    support::Schema,
};
use lock_core::{
    __private::{reserved_name, semaphore_name},
    LockErrorKind, LockFactory, LockName, Store,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, Backend, BackendExt as _, Inspected, NotifyWaiters,
        PermitRequest, Place, ReleaseRequest, Released, Reply, Share, StoredPool,
    },
    inspect::ListLimits,
};
use lock_sqlx::PostgresBackend;
use lock_testkit::{
    Direction, PostgresServer, TcpProxy,
    contender::{Contender, LONG, look},
};
use sqlx::{PgPool, PgTransaction};
use std::{
    collections::HashSet,
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;

/// Shorter than the time that a statement waits for a row.
const A_MOMENT: Duration = Duration::from_millis(100);

fn pool_name() -> LockName {
    semaphore_name(&LockName::new("x").unwrap()).unwrap()
}

async fn stored(backend: &Arc<dyn Backend>) -> StoredPool {
    match look(backend, &pool_name()).await.outcome {
        Inspected::Pool(pool) => pool,
        other => panic!("expected a pool, got {other:?}"),
    }
}

/// A request for the only permit, with this time to execute it.
async fn request(contender: &Contender, within: Duration) -> AcquireRequest {
    let place = Some(Place { id: contender.lease(), patience: LONG });
    let permit = PermitRequest { share: Share { weight: 1, limit: 1 }, place, floor: None };
    let request = contender.request(&pool_name(), LONG, AcquireMode::Permit(permit.into())).await;
    // It has 60 s.
    AcquireRequest { not_after: request.not_after - Duration::from_secs(60) + within, ..request }
}

/// A pool that was used before, so that it has a row.
async fn used(schema: &Schema) -> Store {
    let store = schema.store().await;
    let before = Contender::new(&store.backend);
    assert!(matches!(before.queue(&pool_name(), 1, 1).await, Acquired::Granted { .. }));
    before.free(&pool_name()).await;
    store
}

async fn row_of(pool: &PgPool) -> PgTransaction<'static> {
    let mut tx = pool.begin().await.unwrap();
    let lock = sqlx::query("select from distlock_pool for update").fetch_all(&mut *tx).await.unwrap();
    assert_eq!(lock.len(), 1);
    tx
}

/// The row is locked between the read and the write, until the request is late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_that_waits_beyond_its_time_is_late() {
    let schema = Schema::new();
    let (store, pool) = (used(&schema).await, schema.pool().await);
    let contender = Contender::new(&store.backend);
    let tx = row_of(&pool).await;
    let request = request(&contender, A_MOMENT / 2).await;
    let waiting = tokio::spawn(async move { contender.send(request).await });
    sleep(A_MOMENT).await;
    assert!(!waiting.is_finished());
    tx.rollback().await.unwrap();
    assert_eq!(waiting.await.unwrap().outcome, Acquired::Late);
    assert_eq!(stored(&store.backend).await, StoredPool::default());
}

async fn behind(schema: &Schema, proxy: &TcpProxy, server: &PostgresServer) -> Store {
    let url = schema.url().replace(&server.address().to_string(), &proxy.address().to_string());
    PostgresBackend::connect(&url).await.unwrap().into()
}

/// A client behind a proxy, which keeps the next write of a pool, and one that is not.
async fn write_is_captured(server: &PostgresServer) -> (Schema, TcpProxy, Store, Store) {
    let (schema, proxy) = (Schema::on(server), TcpProxy::start(server.address()));
    let near = used(&schema).await;
    let far = behind(&schema, &proxy, server).await;
    proxy.capture(|bytes: &[u8]| bytes.starts_with(b"B") && bytes.windows(9).any(|at| at == b"\"holders\""));
    (schema, proxy, near, far)
}

/// The write has no reply, and is not sent again.
async fn is_unknown(store: &Store, request: AcquireRequest) {
    let error = store.backend.acquire(request).await.unwrap_err();
    assert!(error.is_retryable() && error.applied() == Applied::Unknown, "{error:?}");
}

async fn deliver(proxy: &TcpProxy) {
    assert_eq!(proxy.captured(), 1);
    tokio::task::block_in_place(|| proxy.deliver_captured());
    sleep(A_MOMENT).await;
}

/// Its caller has given up, and nobody would ever release the permit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_that_arrives_after_its_time_changes_nothing() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let (_schema, proxy, near, far) = write_is_captured(&server).await;
    let contender = Contender::new(&far.backend);
    let request = request(&contender, Duration::from_secs(1)).await;
    is_unknown(&far, request).await;
    sleep(Duration::from_secs(1)).await;
    deliver(&proxy).await;
    assert_eq!(stored(&near.backend).await, StoredPool::default());
}

/// The release finds nothing while the write may still be executed, and the write is executed after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_that_arrives_after_the_release_changes_nothing() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let (_schema, proxy, near, far) = write_is_captured(&server).await;
    let contender = Contender::new(&far.backend);
    let request = request(&contender, LONG).await;
    let lease = contender.lease();
    is_unknown(&far, request).await;
    let gone = release(&near.backend, lease).await.outcome;
    assert_eq!(gone, Released::Gone { held_by_other: false });
    deliver(&proxy).await;
    assert_eq!(stored(&near.backend).await, StoredPool::default());
}

async fn release(backend: &Arc<dyn Backend>, lease: lock_core::backend::LeaseId) -> Reply<Released> {
    let notify = NotifyWaiters::Yes;
    backend.release(ReleaseRequest { name: pool_name(), lease, depth_left: 0, notify }).await.unwrap()
}

/// A release meets the grant of its permit, which is executed but not committed.
async fn waits_for_the_grant(schema: &Schema) {
    let (backend, pool) = (schema.store().await.backend, schema.pool().await);
    let lease = Contender::new(&backend).lease();
    // Its connection is open when the release begins.
    assert_eq!(stored(&backend).await, StoredPool::default());
    let mut grant = pool.begin().await.unwrap();
    let state = format!(
        r#"{{"holders":{{"{lease}":{{"weight":1,"ends_ms":99999999999999}}}},"queue":[],"counter":null}}"#
    );
    sqlx::query(
        "insert into distlock_pool as p (name, state, version, freed) values ($1, $2, 1, 0)
         on conflict (name) do update set state = excluded.state, version = p.version + 1",
    )
    .bind(pool_name().as_str())
    .bind(state)
    .execute(&mut *grant)
    .await
    .unwrap();
    let of_release = backend.clone();
    let releasing = tokio::spawn(async move { release(&of_release, lease).await });
    sleep(A_MOMENT).await;
    assert!(!releasing.is_finished(), "answered before the grant is known: {:?}", releasing.await.unwrap());
    grant.commit().await.unwrap();
    assert!(matches!(releasing.await.unwrap().outcome, Released::Released { .. }));
    assert_eq!(stored(&backend).await, StoredPool::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_waits_for_a_grant_that_is_not_committed() {
    let schema = Schema::new();
    drop(used(&schema).await);
    waits_for_the_grant(&schema).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_waits_for_the_first_grant_of_a_pool() {
    let schema = Schema::new();
    drop(schema.client().await);
    waits_for_the_grant(&schema).await;
}

/// They would take as many round trips as there are operations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_of_a_process_share_their_writes() {
    let schema = Schema::new();
    let store = used(&schema).await;
    let contenders: Vec<_> = (0..24).map(|_| Contender::new(&store.backend)).collect();
    let mut requests = Vec::new();
    for contender in &contenders {
        requests.push(contender.send(request(contender, LONG).await));
    }
    let replies = futures_util::future::join_all(requests).await;
    let granted = replies.iter().filter(|reply| matches!(reply.outcome, Acquired::Granted { .. })).count();
    let times: HashSet<_> = replies.iter().map(|reply| reply.now).collect();
    assert_eq!(granted, 1);
    assert!(times.len() <= 4, "{} writes for 24 operations", times.len());
}

/// Otherwise the next operations would wait for its statement, which the server may never answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operation_that_is_given_up_disturbs_no_other() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let (schema, proxy) = (Schema::on(&server), TcpProxy::start(server.address()));
    let far = behind(&schema, &proxy, &server).await;
    let [first, second] = [(); 2].map(|()| Contender::new(&far.backend));
    assert!(matches!(first.queue(&pool_name(), 1, 2).await, Acquired::Granted { .. }));
    proxy.stall(Direction::Both);
    assert!(tokio::time::timeout(A_MOMENT, first.renew(&pool_name(), LONG)).await.is_err());
    // Its connection is lost; those that are opened from now on are not.
    proxy.pass();
    let served = tokio::time::timeout(LONG / 2, second.queue(&pool_name(), 1, 2)).await;
    assert!(matches!(served, Ok(Acquired::Granted { .. })), "{served:?}");
}

/// Each client has connections of its own, as another process has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_together_keep_the_limit() {
    let schema = Schema::new();
    let (held, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let (locks, held, most) = (schema.locks().await, held.clone(), most.clone());
        tasks.push(tokio::spawn(async move {
            let semaphore = locks.semaphore("x", 2).unwrap();
            for _ in 0..15 {
                let permit = semaphore.acquire_timeout(Duration::from_secs(60)).await.unwrap();
                most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_millis(2)).await;
                held.fetch_sub(1, Ordering::SeqCst);
                assert!(permit.release().await.unwrap().was_held());
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

async fn refusal(locks: &LockFactory) -> String {
    let error = locks.semaphore("x", 1).unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Backend, "{error}");
    format!("{error} {}", error.source().unwrap())
}

/// Locks need no table of pools. The migration of this version creates it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_the_former_version_serve_locks_and_are_migrated() {
    let schema = Schema::new();
    drop(schema.client().await);
    run(&schema.pool().await, "drop table distlock_pool").await;
    let url = schema.url().replace("migrate=true", "migrate=false");
    let backend = PostgresBackend::connect(&url).await.unwrap();
    let directory = Store::from(backend.clone()).directory.unwrap();
    let locks = LockFactory::new(backend);
    let guard = locks.named("d").unwrap().acquire().await.unwrap();
    let missing = refusal(&locks).await;
    assert!(missing.contains("distlock::sql::migrate(url)"), "{missing}");
    let listed = directory.list("d".to_owned(), ListLimits::new()).await.unwrap();
    assert_eq!(listed.names, [LockName::new("d").unwrap()]);
    lock_sqlx::migrate(&url).await.unwrap();
    let permit = locks.semaphore("x", 1).unwrap().acquire().await.unwrap();
    let listed = directory.list("d".to_owned(), ListLimits::new()).await.unwrap();
    assert_eq!(listed.names, [LockName::new("d").unwrap(), pool_name()]);
    let listed = directory.list(String::new(), ListLimits::new()).await.unwrap();
    assert_eq!(listed.names, [LockName::new("d").unwrap()]);
    assert!(permit.release().await.unwrap().was_held());
    assert!(guard.release().await.unwrap().was_held());
    let listed = directory.list("distlock:".to_owned(), ListLimits::new()).await.unwrap();
    assert!(listed.names.is_empty(), "only its counter is left");
}

/// A user that takes locks has not the rights of the tables' owner, and its URL may ask for a migration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_need_rights_that_locks_do_not_need() {
    let schema = Schema::new();
    drop(schema.client().await);
    let (pool, name) = (schema.pool().await, schema.name());
    run(&pool, &format!("create role visitor_{name} login; grant usage on schema {name} to visitor_{name}"))
        .await;
    run(
        &pool,
        &format!("grant select, insert, update, delete on all tables in schema {name} to visitor_{name}"),
    )
    .await;
    run(&pool, &format!("revoke all on distlock_pool from visitor_{name}")).await;
    let url = schema.url().replace("testkit@", &format!("visitor_{name}@"));
    let locks = LockFactory::new(PostgresBackend::connect(&url).await.unwrap());
    assert!(locks.named("x").unwrap().try_acquire().await.unwrap().is_some());
    let denied = refusal(&locks).await;
    assert!(denied.contains("grant select, insert, update and delete") && denied.contains("distlock_pool"));
    run(&pool, "drop table distlock_pool").await;
    let locks = LockFactory::new(PostgresBackend::connect(&url).await.unwrap());
    assert!(locks.named("x").unwrap().try_acquire().await.unwrap().is_some());
    assert!(refusal(&locks).await.contains("a table is missing"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_that_have_ended_are_deleted() {
    let schema = Schema::new();
    let (store, pool) = (used(&schema).await, schema.pool().await);
    run(&pool, "update distlock_pool set expires_ms = 1").await;
    let other = semaphore_name(&LockName::new("y").unwrap()).unwrap();
    for _ in 0..32 {
        let contender = Contender::new(&store.backend);
        contender.queue(&other, 1, 1).await;
        contender.free(&other).await;
    }
    let names = || sqlx::query_scalar::<_, String>("select name from distlock_pool").fetch_all(&pool);
    while names().await.unwrap().contains(&pool_name().as_str().to_owned()) {
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(names().await.unwrap(), [other.as_str()]);
}

/// The names of libraries, and of pools, are none that `LockName::new` accepts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_of_a_reserved_name_wakes_others() {
    for parameters in ["", "&pooler=true"] {
        let schema = Schema::with(parameters);
        let (locks, others) = (schema.locks().await, schema.locks().await);
        let name = reserved_name("leader").unwrap();
        let of = |locks: &LockFactory| locks.named(&name).unwrap().with_options(patient()).unwrap();
        let guard = of(&locks).acquire().await.unwrap();
        let waiting = tokio::spawn(of(&others).acquire());
        sleep(Duration::from_secs(1)).await;
        guard.release().await.unwrap();
        is_woken(waiting).await;
    }
}

/// The settings of the server would lose everything of the last ten seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_loses_no_permit() {
    let settings = ["fsync=on", "synchronous_commit=off", "wal_writer_delay=10s"];
    let server = PostgresServer::with_settings(&settings);
    let schema = Schema::on(&server);
    for round in 0..3 {
        let (locks, others) = (schema.locks().await, schema.locks().await);
        let name = format!("x:{}", round % 2);
        let permit = locks.semaphore(&name, 1).unwrap().acquire().await.unwrap();
        server.stop();
        server.restart();
        let other = others.semaphore(&name, 1).unwrap();
        let found = loop {
            match other.try_acquire().await {
                Ok(found) => break found,
                // Its connections ended with the server.
                Err(error) => assert_ne!(error.kind(), LockErrorKind::Backend, "{error:?}"),
            }
        };
        assert!(found.is_none(), "the grant was lost");
        assert!(permit.release().await.unwrap().was_held());
    }
}
