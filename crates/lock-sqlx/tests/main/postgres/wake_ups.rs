//! Wake-ups: rows that are deleted, made again or locked, and connections that are lost without a word.

use super::{
    clients::{Firewall, SOON, first_statement, is_woken, lock, patient, short_lived, sweeps, through},
    support::Schema,
};
use lock_core::LockFactory;
use lock_sqlx::{PostgresBackend, fence};
use lock_testkit::{PostgresServer, TcpProxy};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The counter has ended during a long hold, and the release of it is followed by a sweep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweep_keeps_what_pollers_look_for() {
    let schema = Schema::with("&pooler=true");
    let (locks, others) = (schema.locks().await, schema.locks().await);
    let guard = lock(&locks, "x", short_lived()).acquire().await.unwrap();
    let waiting = tokio::spawn(lock(&others, "x", short_lived()).acquire());
    sleep(Duration::from_millis(1_500)).await;
    sweeps(&locks, 63).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    is_woken(waiting).await;
}

/// With NOTIFY: the row with the notes of those who wait is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweep_keeps_the_notes_of_those_who_wait() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let locks = schema.locks().await;
    let (near, far) = (TcpProxy::start(server.address()), TcpProxy::start(server.address()));
    let first = through(&schema, server.address(), near.address()).await;
    let second = through(&schema, server.address(), far.address()).await;
    near.delay(Duration::from_millis(15));
    far.delay(Duration::from_millis(50));
    let guard = lock(&locks, "x", short_lived()).acquire().await.unwrap();
    let mut waiting = Vec::new();
    for locks in [&first, &second] {
        let lock = lock(locks, "x", short_lived());
        waiting.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            sleep(Duration::from_millis(300)).await;
            guard.release().await.unwrap();
        }));
    }
    sleep(Duration::from_millis(1_500)).await;
    sweeps(&locks, 63).await;
    guard.release().await.unwrap();
    for waiting in waiting {
        timeout(SOON, waiting).await.expect("it is woken").unwrap();
    }
}

/// A row is deleted and created again, so its number of releases begins again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pollers_hear_of_releases_of_a_row_that_was_created_again() {
    let schema = Schema::with("&pooler=true");
    let (locks, others) = (schema.locks().await, schema.locks().await);
    // Something always waits in this process.
    let _leader = lock(&others, "leader", patient()).acquire().await.unwrap();
    let candidate = tokio::spawn(lock(&locks, "leader", patient()).acquire());
    let job = lock(&locks, "x", short_lived());
    for _ in 0..3 {
        job.acquire().await.unwrap().release().await.unwrap();
    }
    sleep(Duration::from_millis(1_500)).await;
    sweeps(&others, 64).await;
    sleep(Duration::from_millis(300)).await;
    let pool = schema.pool().await;
    let rows: i64 = sqlx::query_scalar("select count(*) from distlock_lock where name = 'x'")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(rows, 0, "swept");
    let guard = lock(&others, "x", short_lived()).acquire().await.unwrap();
    let waiting = tokio::spawn(job.acquire());
    sleep(Duration::from_millis(1_500)).await;
    guard.release().await.unwrap();
    is_woken(waiting).await;
    candidate.abort();
}

/// One program names the schema, another one leaves it to the server: the tables are the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_the_same_tables_wake_one_another() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let named =
        PostgresBackend::connect(&format!("{}?migrate=true&schema=public", server.url())).await.unwrap();
    let unnamed = PostgresBackend::connect(&server.url()).await.unwrap();
    let (named, unnamed) = (LockFactory::new(named), LockFactory::new(unnamed));
    let guard = lock(&named, "x", patient()).acquire().await.unwrap();
    let waiting = tokio::spawn(lock(&unnamed, "x", patient()).acquire());
    sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    is_woken(waiting).await;
}

async fn firewall_forgets(parameters: &str) {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let firewall = Firewall::start(server.address()).await;
    let locks = schema.locks().await;
    let url = schema.url().replace(&server.address().to_string(), &firewall.address.to_string());
    let others = LockFactory::new(PostgresBackend::connect(&format!("{url}{parameters}")).await.unwrap());
    let guard = lock(&locks, "x", patient()).acquire().await.unwrap();
    let waiting = tokio::spawn(lock(&others, "x", patient()).acquire());
    sleep(Duration::from_secs(2)).await;
    firewall.forget();
    // The connections are looked after every 10 s, and must answer within 5 s.
    sleep(Duration::from_secs(25)).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    is_woken(waiting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listener_survives_connections_that_were_forgotten() {
    firewall_forgets("").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poller_survives_connections_that_were_forgotten() {
    firewall_forgets("&pooler=true").await;
}

/// Two factories of one store. The reply to a release is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_without_a_reply_wakes_the_other_factory() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let proxy = TcpProxy::start(server.address());
    let url = schema.url().replace(&server.address().to_string(), &proxy.address().to_string());
    let backend = PostgresBackend::connect(&url).await.unwrap();
    let (locks, others) = (LockFactory::new(backend.clone()), LockFactory::new(backend));
    let guard = lock(&locks, "x", patient()).acquire().await.unwrap();
    let waiting = tokio::spawn(lock(&others, "x", patient()).acquire());
    // The process cards are written by then.
    sleep(Duration::from_millis(2_500)).await;
    proxy.lose_replies(first_statement());
    let released = guard.release().await;
    assert_eq!(proxy.lost(), 1, "{released:?}");
    proxy.pass();
    is_woken(waiting).await;
}

/// A long fence of one lock, for which some processes wait, makes others miss the release of another lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fence_of_one_lock_delays_no_wake_up_of_another() {
    let schema = Schema::new();
    let (locks, others, pool) = (schema.locks().await, schema.locks().await, schema.pool().await);
    let rivals = futures_util::future::join_all((0..4).map(|_| schema.locks())).await;
    let a = lock(&locks, "a", patient()).acquire().await.unwrap();
    let b = lock(&locks, "b", patient()).acquire().await.unwrap();
    let mut waiting = vec![tokio::spawn(lock(&others, "a", patient()).acquire())];
    let wanted = tokio::spawn(lock(&others, "b", patient()).acquire());
    waiting.extend(rivals.iter().map(|rival| tokio::spawn(lock(rival, "a", patient()).acquire())));
    sleep(Duration::from_secs(1)).await;
    let mut tx = pool.begin().await.unwrap();
    fence(&mut tx, &a).await.unwrap();
    a.release().await.unwrap();
    sleep(Duration::from_secs(45)).await;
    assert!(!wanted.is_finished());
    b.release().await.unwrap();
    is_woken(wanted).await;
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Nothing waits when the connections are forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscription_is_not_acknowledged_by_a_dead_listener() {
    let server = PostgresServer::with_settings(&["fsync=on"]);
    let schema = Schema::on(&server);
    let firewall = Firewall::start(server.address()).await;
    let locks = schema.locks().await;
    let url = schema.url().replace(&server.address().to_string(), &firewall.address.to_string());
    let others = LockFactory::new(PostgresBackend::connect(&url).await.unwrap());
    let guard = lock(&locks, "x", patient()).acquire().await.unwrap();
    let first = tokio::spawn(lock(&others, "x", patient()).acquire());
    sleep(Duration::from_secs(1)).await;
    guard.release().await.unwrap();
    first.await.unwrap().unwrap().release().await.unwrap();
    sleep(Duration::from_secs(15)).await;
    firewall.forget();
    // The first requests time out.
    while others.named("y").unwrap().try_acquire().await.is_err() {}
    let guard = lock(&locks, "x", patient()).acquire().await.unwrap();
    let waiting = tokio::spawn(lock(&others, "x", patient()).acquire());
    sleep(Duration::from_secs(1)).await;
    guard.release().await.unwrap();
    // A dead listener would be noticed some ten seconds later.
    is_woken(waiting).await;
}
