//! Servers that crash, hang, or cannot be used, and connections that fail.

use super::support::Database;
use crate::support::hold_ends_before_another_is_granted;
use lock_core::{
    FencingToken, LockErrorKind, LockFactory, LockName, LockOptions,
    backend::{BackendErrorKind, BackendExt as _, Renewed},
};
use lock_sqlx::MySqlBackend;
use lock_testkit::{
    MariaDbServer, RulesRun, Seed, TcpProxy,
    contender::{Contender, LONG, next},
    unused_address,
};
use std::{
    error::Error as _,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(30);

async fn is_refused(url: &str, kind: LockErrorKind, remedy: &str) {
    let error = MySqlBackend::connect(url).await.unwrap_err();
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    let text = format!("{error} {source}");
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.contains(remedy), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_loses_no_grant_and_waiters_go_on() {
    let server = MariaDbServer::start();
    let database = Database::on(&server, "locks");
    let (locks, others) = (database.locks().await, database.locks().await);
    let options = LockOptions::default().lease(Duration::from_secs(120));
    let mut last = FencingToken::new(0);
    for round in 0..3 {
        let name = format!("x:{}", round % 2);
        let guard = locks.named(&name).unwrap().with_options(options).unwrap().acquire().await.unwrap();
        let waiting = tokio::spawn(others.named(&name).unwrap().acquire());
        tokio::task::block_in_place(|| {
            server.stop();
            server.restart();
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(guard.is_held() && !waiting.is_finished(), "the grant was lost");
        assert!(guard.fencing_token() > last, "the tokens of a name grow");
        assert!(guard.release().await.unwrap().was_held());
        let newer = tokio::time::timeout(PATIENCE, waiting).await.expect("it goes on").unwrap().unwrap();
        last = newer.fencing_token();
        newer.release().await.unwrap();
    }
}

/// A client behind a proxy, and others that are not.
async fn behind_a_proxy(server: &MariaDbServer) -> (TcpProxy, LockFactory, LockFactory) {
    let (database, proxy) = (Database::on(server, "locks"), TcpProxy::start(server.address()));
    let others = database.locks().await;
    let url = database.url().replace(&server.address().to_string(), &proxy.address().to_string());
    (proxy, LockFactory::new(MySqlBackend::connect(&url).await.unwrap()), others)
}

/// The first acquire.
fn first_acquire() -> impl Fn(&[u8]) -> bool + Send + Sync + 'static {
    const PART: &[u8] = b"insert into distlock_fence";
    let was_seen = AtomicBool::new(false);
    move |bytes| bytes.windows(PART.len()).any(|part| part == PART) && !was_seen.swap(true, Ordering::SeqCst)
}

/// An acquire is applied, but its reply is lost, or it is applied after its client has given up. It is undone long before
/// its lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_without_a_reply_leaves_no_lease() {
    let server = MariaDbServer::start();
    let (proxy, locks, others) = behind_a_proxy(&server).await;
    for round in 0..6 {
        // Every other name has no row yet.
        let name = format!("x:{}", round / 2);
        match round % 2 {
            0 => proxy.lose_replies(first_acquire()),
            _ => proxy.capture(first_acquire()),
        }
        let error = locks.named(&name).unwrap().try_acquire().await.map(|guard| guard.is_some());
        assert!(matches!(&error, Err(error) if error.kind() != LockErrorKind::Backend), "{error:?}");
        proxy.pass();
        if round % 2 == 1 {
            assert_eq!(proxy.captured(), 1);
            tokio::task::block_in_place(|| proxy.deliver_captured());
        }
        let other = others.named(&name).unwrap().acquire_timeout(PATIENCE / 3).await.unwrap();
        other.release().await.unwrap();
    }
    assert_eq!(proxy.lost(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hold_ends_in_time_if_the_server_is_not_reached() {
    let server = MariaDbServer::start();
    let (proxy, locks, others) = behind_a_proxy(&server).await;
    hold_ends_before_another_is_granted(&proxy, &locks, &others).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_server_grants_nothing_and_its_clients_go_on_afterwards() {
    let server = MariaDbServer::start();
    let database = Database::on(&server, "locks");
    let locks = database.locks().await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    server.pause();
    let error = locks.named("y").unwrap().acquire_timeout(Duration::from_secs(3)).await.unwrap_err();
    assert_ne!(error.kind(), LockErrorKind::Backend, "{error}");
    assert!(guard.is_held());
    server.resume();
    let other = locks.named("y").unwrap().acquire_timeout(PATIENCE).await.unwrap();
    assert!(guard.release().await.unwrap().was_held());
    other.release().await.unwrap();
}

#[tokio::test]
async fn database_without_tables_is_refused_until_they_are_created() {
    let database = Database::new();
    let url = database.url();
    is_refused(url, LockErrorKind::Backend, "distlock::sql::migrate(url)").await;
    let lazy = LockFactory::new(MySqlBackend::connect_lazy(url).unwrap());
    assert_eq!(lazy.named("x").unwrap().try_acquire().await.unwrap_err().kind(), LockErrorKind::Backend);
    // By several programs at once.
    let all = futures_util::future::join_all((0..12).map(|_| lock_sqlx::migrate(url))).await;
    all.into_iter().for_each(|migrated| migrated.unwrap());
    assert!(lazy.named("x").unwrap().try_acquire().await.unwrap().is_some());
    sqlx::query("update distlock_meta set version = 2").execute(&database.pool().await).await.unwrap();
    is_refused(url, LockErrorKind::Backend, "update the program").await;
}

#[tokio::test]
async fn missing_rights_name_the_grants() {
    let server = MariaDbServer::start();
    let database = Database::on(&server, "locks");
    drop(database.client().await);
    server.execute("create user guest@'%'; grant select on locks.* to guest@'%'");
    let url = database.url().replace("testkit@", "guest@");
    let remedy = "grant select, insert, update and delete";
    is_refused(&url, LockErrorKind::Backend, remedy).await;
    for table in ["lock", "fence", "card"] {
        is_refused(&url, LockErrorKind::Backend, remedy).await;
        server.execute(&format!("grant insert, update, delete on locks.distlock_{table} to guest@'%'"));
    }
    let locks = LockFactory::new(MySqlBackend::connect(&url).await.unwrap());
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    let stranger = database.url().replace("testkit@", "stranger@");
    is_refused(&stranger, LockErrorKind::Backend, "login was refused").await;
}

#[tokio::test]
async fn unsafe_settings_are_refused() {
    let server = MariaDbServer::with_settings(&["innodb-flush-log-at-trx-commit=2"]);
    let database = Database::on(&server, "locks");
    let url = format!("{}?migrate=true", database.url());
    is_refused(&url, LockErrorKind::Backend, "set it to 1").await;
    server.execute("set global innodb_flush_log_at_trx_commit = 1");
    drop(database.client().await);
    server.execute("set global read_only = 1");
    is_refused(database.url(), LockErrorKind::Unavailable, "read-only").await;
}

#[tokio::test]
async fn server_that_is_not_there_is_unavailable() {
    let url = format!("mysql://testkit@{}/locks", unused_address());
    is_refused(&url, LockErrorKind::Unavailable, "failed to connect").await;
    let missing = Database::new().url().replace("/test_", "/missing_");
    is_refused(&missing, LockErrorKind::Backend, "does not exist").await;
}

/// Whatever the server's defaults are, each connection sets what it depends on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_the_server_do_not_matter() {
    let server = MariaDbServer::with_settings(&[
        "completion-type=CHAIN",
        "innodb-snapshot-isolation=ON",
        "transaction-isolation=SERIALIZABLE",
        "sql-mode=ANSI",
        "max-allowed-packet=1M",
        "default-time-zone=+05:00",
    ]);
    server.execute("set global sql_safe_updates = 1; set global autocommit = 0");
    let database = Database::on(&server, "locks");
    let mut run = RulesRun::new(database.store().await.backend, Seed::of_this_run());
    for _ in 0..300 {
        run.step().await;
    }
    // Clients that meet at new names, and a large batch of long names.
    let (a, b) = (database.locks().await, database.locks().await);
    for round in 0..20 {
        let (a, b) = (a.named(format!("n:{round}")).unwrap(), b.named(format!("n:{round}")).unwrap());
        let (a, b) = tokio::join!(a.try_acquire(), b.try_acquire());
        assert!(a.unwrap().is_some() != b.unwrap().is_some(), "both or none");
    }
    let backend = database.store().await.backend;
    let contender = Contender::new(&backend);
    let name = |number: usize| LockName::new(format!("{number:0>512}")).unwrap();
    let items = (0..500).map(|number| contender.renewal(&name(number), LONG)).collect();
    let answers = backend.renew(items).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|reply| reply.outcome == Renewed::Gone)));
}

/// A primary that is demoted grants and renews nothing, although this user may write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn former_primary_grants_nothing() {
    let server = MariaDbServer::start();
    let database = Database::on(&server, "locks");
    let backend = database.store().await.backend;
    let (contender, x) = (Contender::new(&backend), LockName::new("x").unwrap());
    contender.take(&x, LONG).await;
    server.execute("set global read_only = 1");
    let request = contender.request(&LockName::new("y").unwrap(), LONG, next(0, None)).await;
    assert_eq!(backend.acquire(request).await.unwrap_err().kind(), BackendErrorKind::Unavailable);
    let renewed = backend.renew(vec![contender.renewal(&x, LONG)]).await;
    assert_eq!(renewed[0].as_ref().unwrap_err().kind(), BackendErrorKind::Unavailable);
    server.execute("set global read_only = 0");
    let renewed = backend.renew(vec![contender.renewal(&x, LONG)]).await;
    assert_eq!(renewed[0].as_ref().unwrap().outcome, Renewed::Renewed);
}
