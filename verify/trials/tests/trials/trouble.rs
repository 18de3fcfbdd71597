//! Servers that refuse service for a while: holders keep their locks, waiters keep waiting, and a single attempt
//! returns the reason.

use crate::{
    figure::{Figure, Run},
    stage::{HANGS, blocking, factory, lock, on_a_runtime},
};
use lock_core::{LockErrorKind, LockFactory, LockOptions, LostReason};
use lock_fred::RedisBackend;
use lock_testkit::RedisServer;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const LEASE: Duration = Duration::from_secs(9);
/// Longer than a renewal interval, shorter than a lease.
const TROUBLE: Duration = Duration::from_millis(4_500);

pub(crate) fn servers_in_trouble(run: &Run) -> Vec<Figure> {
    on_a_runtime(async {
        // Each has its own server, and they mostly sleep.
        tokio::join!(
            read_only(),
            full(),
            without_enough_replicas(),
            unable_to_save(),
            busy_with_a_script(),
            loading_its_data(),
            paused(*run),
            revoked_permissions_end_a_hold_at_its_deadline(*run),
            eviction_is_reported_as_a_loss(),
        );
    });
    vec![
        Figure::new(
            "server answers `READONLY`, `OOM`, `NOREPLICAS`, `MISCONF`, `BUSY`, `LOADING`, or nothing",
            7,
            "holds survive what ends before their deadline; waiters keep waiting; one try returns the reason",
            "7 survived, 0 holds lost early",
        ),
        Figure::new(
            "rights revoked while held (`NOPERM`)",
            2,
            "an immediate error; the hold lives until its deadline",
            "1 restored in time: survived; 1 lost at the deadline",
        ),
        Figure::new(
            "held lock evicted, under each policy",
            POLICIES.len(),
            "`Lost(Gone)` at the next renewal; tokens rise",
            format!("{} noticed in time", POLICIES.len()),
        ),
    ]
}

/// Holds a lock and waits for another one while the server is in trouble.
async fn is_survived(
    server: RedisServer,
    word: &str,
    cause: impl FnOnce(&RedisServer) + Send + 'static,
    cure: impl FnOnce(&RedisServer) + Send + 'static,
) {
    let locks = factory(&server.url(), LockOptions::new().lease(LEASE)).await;
    let guard = lock(&locks, "held").acquire().await.unwrap();
    let server = Arc::new(server);
    blocking(&server, cause).await;
    let begun = Instant::now();
    let one_try = lock(&locks, "tried").try_acquire().await;
    let error = one_try.map(drop).expect_err("slots not served");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{word}: {error:?}");
    assert!(error.is_retryable() && !error.is_ambiguous(), "{word}: the request was refused, {error:?}");
    assert!(error.backend_error().expect("the server said why").to_string().contains(word), "{error:?}");
    let waiting = tokio::spawn(lock(&locks, "waited").acquire());
    tokio::time::sleep(TROUBLE.saturating_sub(begun.elapsed())).await;
    assert!(guard.is_held() && !waiting.is_finished(), "{word}");
    blocking(&server, cure).await;
    let second = tokio::time::timeout(HANGS, waiting).await.expect("the wait ends");
    second.unwrap().unwrap().release().await.unwrap();
    tokio::time::sleep(LEASE).await;
    assert!(guard.is_held(), "{word}: renewed in time");
    assert!(guard.release().await.unwrap().was_held(), "{word}");
}

/// Every policy but `noeviction`.
const POLICIES: [&str; 7] = [
    "volatile-lru",
    "volatile-lfu",
    "volatile-ttl",
    "volatile-random",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
];

fn set(server: &RedisServer, name: &str, value: &str) {
    let answer = server.command(&["CONFIG", "SET", name, value]);
    assert!(!answer.is_error(), "{answer:?}");
}

async fn read_only() {
    is_survived(
        RedisServer::start(),
        "READONLY",
        // As the replica of an unreachable master.
        |server| drop(server.command(&["REPLICAOF", "127.0.0.1", "1"])),
        |server| drop(server.command(&["REPLICAOF", "NO", "ONE"])),
    )
    .await;
}

async fn full() {
    let cure = |server: &RedisServer| set(server, "maxmemory", "0");
    is_survived(RedisServer::start(), "OOM", |server| set(server, "maxmemory", "1"), cure).await;
}

async fn without_enough_replicas() {
    let cure = |server: &RedisServer| set(server, "min-replicas-to-write", "0");
    let cause = |server: &RedisServer| set(server, "min-replicas-to-write", "1");
    is_survived(RedisServer::start(), "NOREPLICAS", cause, cure).await;
}

async fn unable_to_save() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("data");
    std::fs::create_dir(&place).unwrap();
    let server = RedisServer::builder().persistent().config("dir", place.to_str().unwrap()).start();
    let save = |server: &RedisServer, outcome: &str| {
        server.command(&["BGSAVE"]);
        let says = || server.command(&["INFO", "persistence"]).text().to_owned();
        let done = format!("rdb_last_bgsave_status:{outcome}");
        while !(says().contains(&done) && says().contains("rdb_bgsave_in_progress:0")) {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let again = place.clone();
    let cause = move |server: &RedisServer| {
        std::fs::remove_dir_all(&place).unwrap();
        save(server, "err");
    };
    let cure = move |server: &RedisServer| {
        std::fs::create_dir(&again).unwrap();
        // The server's working directory is still the removed one.
        server.command(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    };
    is_survived(server, "MISCONF", cause, cure).await;
}

async fn busy_with_a_script() {
    let server = RedisServer::builder().config("lua-time-limit", "10").start();
    // Logins are impossible in the meantime; these connections are already logged in.
    let (mut killer, mut looks) = (server.raw(), server.raw());
    let cause = move |server: &RedisServer| {
        server.raw().send(&["EVAL", "while true do end", "0"]).unwrap();
        while !looks.command(&["GET", "x"]).is_error() {}
    };
    is_survived(server, "BUSY", cause, move |_| drop(killer.command(&["SCRIPT", "KILL"]))).await;
}

async fn loading_its_data() {
    let server = RedisServer::builder().config("enable-debug-command", "yes").start();
    let cause = |server: &RedisServer| {
        let mut looks = server.raw();
        server.command(&["DEBUG", "POPULATE", "20000"]);
        set(server, "key-load-delay", "1000");
        set(server, "loading-process-events-interval-bytes", "1024");
        server.raw().send(&["DEBUG", "RELOAD"]).unwrap();
        while !looks.command(&["GET", "x"]).is_error() {}
    };
    is_survived(server, "LOADING", cause, |server| set(server, "key-load-delay", "0")).await;
}

/// A suspended process does not close its connections: no answer arrives until it is resumed.
async fn paused(run: Run) {
    let server = RedisServer::start();
    let locks = factory(&server.url(), LockOptions::new().lease(LEASE)).await;
    let guard = lock(&locks, "held").acquire().await.unwrap();
    server.pause();
    let error = lock(&locks, "tried").try_acquire().await.map(drop).expect_err("no answer");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error:?}");
    assert!(
        error.is_retryable() && error.is_ambiguous(),
        "it may be executed once the server resumes: {error:?}"
    );
    tokio::time::sleep(TROUBLE).await;
    server.resume();
    tokio::time::sleep(LEASE).await;
    assert!(guard.is_held(), "renewed in time");

    let paused = Instant::now();
    server.pause();
    guard.lost().await;
    // No later than at the deadline, although no answer arrives.
    run.bound(paused.elapsed(), LEASE);
    assert!(!guard.is_held());
    server.resume();
    let again = lock(&locks, "held").acquire().await.unwrap();
    assert!(again.fencing_token() > guard.fencing_token());
}

/// A refusal that no retry can cure is an error for callers that acquire. A hold survives until its deadline, since
/// permissions may be restored.
async fn revoked_permissions_end_a_hold_at_its_deadline(run: Run) {
    let server = RedisServer::builder().user("shop on >secret ~* &* +@all").start();
    let locks =
        factory(&format!("redis://shop:secret@127.0.0.1:{}", server.port()), LockOptions::new().lease(LEASE))
            .await;
    let guard = lock(&locks, "held").acquire().await.unwrap();
    server.command(&["ACL", "SETUSER", "shop", "-evalsha"]);
    let asked = Instant::now();
    let error = lock(&locks, "tried").acquire().await.map(drop).expect_err("no permission");
    assert_eq!((error.kind(), error.is_retryable()), (LockErrorKind::Backend, false), "{error:?}");
    run.bound(asked.elapsed(), TROUBLE / 3);
    tokio::time::sleep(TROUBLE).await;
    assert!(guard.is_held());
    server.command(&["ACL", "SETUSER", "shop", "+evalsha"]);
    tokio::time::sleep(LEASE).await;
    assert!(guard.is_held(), "renewed in time");

    server.command(&["ACL", "SETUSER", "shop", "-evalsha"]);
    let (revoked, left) = (Instant::now(), guard.remaining());
    assert_eq!(guard.lost().await, LostReason::Expired);
    let after = revoked.elapsed();
    assert!(after >= left, "ended after {after:?} with {left:?} left");
    run.bound(after, LEASE);
}

/// Every policy except `noeviction` eventually evicts locks. The holder is notified, and tokens keep increasing.
async fn eviction_is_reported_as_a_loss() {
    for policy in POLICIES {
        let server = RedisServer::builder()
            .config("maxmemory-policy", policy)
            .config("maxmemory", "3mb")
            .config("lfu-log-factor", "0")
            .start();
        let options = LockOptions::new().lease(LEASE).outage_budget(Duration::from_secs(60));
        let backend = RedisBackend::connect(&server.url()).await.unwrap();
        assert_eq!(backend.warnings().len(), 1, "{policy}");
        let locks = LockFactory::builder(backend).options(options).build().unwrap();
        let guard = lock(&locks, "held").acquire().await.unwrap();
        let server = Arc::new(server);
        blocking(&server, |server| {
            let mut raw = server.raw();
            let value = "x".repeat(10_000);
            for number in 0..100_000 {
                // Keys with an expiry, so that the volatile policies have a choice.
                let filler = format!("filler:{number}");
                raw.command(&["SET", &filler, &value, "PX", "600000"]);
                // Used more often than the lock, for the policies that count uses.
                for _ in 0..20 {
                    raw.send(&["TOUCH", &filler]).unwrap();
                }
                for _ in 0..20 {
                    raw.receive().unwrap();
                }
                // A query that does not count as a use.
                if raw.command(&["OBJECT", "ENCODING", "held"]).is_nil() {
                    return;
                }
            }
            panic!("the lock was never evicted");
        })
        .await;
        let lost = tokio::time::timeout(HANGS, guard.lost()).await.expect("notified");
        assert_eq!(lost, LostReason::Gone, "{policy}: at a renewal, before its lease would have ended");
        blocking(&server, |server| drop(server.command(&["FLUSHALL"]))).await;
        let again = lock(&locks, "held").acquire().await.unwrap();
        assert!(again.fencing_token() > guard.fencing_token(), "{policy}");
        again.release().await.unwrap();
    }
}
