//! Rules of the scripts, each with the counterexample that led to it.

use super::support::{assert_no_lock_is_left, client, factory, name, redis, until};
use crate::client::RedisBackendBuilder;
use lock_core::{
    FencingToken, LockErrorKind, LockFactory, LockOptions,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, Backend, BackendErrorKind, BackendExt as _,
        ForceReleaseRequest, ForceReleased,
    },
    inspect::ForceReleaseOutcome,
};
use lock_testkit::{
    ClockShift, RedisServer, ThreadLog,
    contender::{Contender, next},
};
use std::{sync::Arc, time::Duration};
use tracing::level_filters::LevelFilter;

const LEASE: Duration = Duration::from_secs(30);

async fn asked(
    store: &Arc<dyn Backend>,
    of: &Contender,
    lock: &str,
    lease: Duration,
    mode: AcquireMode,
) -> Result<Acquired, (BackendErrorKind, Applied)> {
    let request: AcquireRequest = of.request(&name(lock), lease, mode).await;
    store.acquire(request).await.map(|reply| reply.outcome).map_err(|error| (error.kind(), error.applied()))
}

const COUNTER: &str = "redisson_lock_token:{x}";
const HOUR: i64 = 3_600_000;

/// A counter in use never expires, and one that Redisson created without an expiry keeps none. Redisson restarts a missing
/// counter at 1.
#[tokio::test]
async fn grants_renew_the_expiry_of_a_counter_that_has_one() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    let a = Contender::new(&store);
    let expires = || server.command(&["PTTL", COUNTER]).integer();
    a.take(&name("x"), LEASE).await;
    a.free(&name("x")).await;
    // Ten minutes are more than an eighth of the retention.
    let now: u64 = server.command(&["GET", COUNTER]).text().parse().unwrap();
    for counter in [(now - 600_000_000).to_string(), "7".to_owned()] {
        server.command(&["SET", COUNTER, &counter, "PX", "500000"]);
        a.take(&name("x"), LEASE).await;
        assert!((HOUR - 10_000..=HOUR).contains(&expires()), "{} ms", expires());
        a.free(&name("x")).await;
    }
    // As Java creates it: without an expiry.
    server.command(&["SET", COUNTER, "7"]);
    for _ in 0..3 {
        a.take(&name("x"), LEASE).await;
        a.take(&name("x"), LEASE).await;
        assert_eq!(expires(), -1);
        a.free(&name("x")).await;
        server.command(&["INCR", COUNTER]);
    }
    // In use by both, for longer than an eighth of the retention.
    server.command(&["SET", COUNTER, &(now - 600_000_000).to_string()]);
    a.take(&name("x"), LEASE).await;
    assert_eq!(expires(), -1);
}

/// Without the permission to set an expiry, a lock would be left behind forever: others would wait without limit, and
/// Java's fenced lock takes such a key for a grant.
#[tokio::test]
async fn lock_without_an_expiry_is_never_left() {
    let server = RedisServer::builder().user("shop on >secret ~* &* +@all").start();
    let url = format!("redis://shop:secret@127.0.0.1:{}", server.port());
    let store = client(&url).await;
    server.command(&["ACL", "SETUSER", "shop", "-pexpire"]);
    let a = Contender::new(&store);
    let answer = asked(&store, &a, "x", LEASE, next(0, None)).await;
    assert_eq!(answer, Err((BackendErrorKind::Denied, Applied::Unknown)));
    assert_no_lock_is_left(&server);
    // The counter is a time, or is as long as one but written in hex.
    for counter in ["1700000000000000", "0x03ffffffffffff"] {
        server.command(&["SET", COUNTER, counter]);
        asked(&store, &a, "x", LEASE, next(0, None)).await.unwrap_err();
        assert_no_lock_is_left(&server);
    }

    // The same for a re-entry and a renewal: they fail, and the lease is unchanged.
    server.command(&["ACL", "SETUSER", "shop", "+pexpire"]);
    a.take(&name("x"), LEASE).await;
    server.command(&["ACL", "SETUSER", "shop", "-pexpire"]);
    let renewed = store.renew(vec![a.renewal(&name("x"), 2 * LEASE)]).await.remove(0).unwrap_err();
    assert_eq!((renewed.kind(), renewed.applied()), (BackendErrorKind::Denied, Applied::Unknown));
    a.must_last(&name("x"), 1, LEASE).await;
}

/// `PEXPIRE` refuses a value that is too large, but only after the lock has been set.
#[tokio::test]
async fn oversized_lease_leaves_no_key() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    let a = Contender::new(&store);
    let answer = asked(&store, &a, "x", Duration::from_millis(u64::MAX >> 1), next(0, None)).await;
    assert!(matches!(answer, Err((_, Applied::Unknown))), "{answer:?}");
    assert_no_lock_is_left(&server);
}

#[tokio::test]
async fn key_of_another_type_is_refused_before_any_write() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    let a = Contender::new(&store);
    let refused = Err((BackendErrorKind::WrongType, Applied::No));
    server.command(&["SET", "greeting", "hello"]);
    assert_eq!(asked(&store, &a, "greeting", LEASE, next(0, None)).await, refused);
    assert_eq!(asked(&store, &a, "greeting", LEASE, AcquireMode::Reenter { depth: 2 }).await, refused);
    for counter in ["hello", "-1", "1e15", "9007199254740993", "99999999999999999999"] {
        server.command(&["SET", "redisson_lock_token:{x}", counter]);
        assert_eq!(asked(&store, &a, "x", LEASE, next(0, None)).await, refused, "{counter}");
        assert_eq!(server.command(&["GET", "redisson_lock_token:{x}"]).text(), counter);
    }
    server.command(&["DEL", "redisson_lock_token:{x}"]);
    server.command(&["RPUSH", "redisson_lock_token:{x}", "1"]);
    assert_eq!(asked(&store, &a, "x", LEASE, next(0, None)).await, refused);
    assert_eq!(server.keys(), ["greeting", "redisson_lock_token:{x}"]);
}

/// An acquire writes the counter when it reads it.
#[tokio::test]
async fn refused_counter_is_restored() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    let keeps = RedisBackendBuilder::from_url(&server.url()).unwrap().retention(None);
    let keeps: Arc<dyn Backend> = Arc::new(keeps.connect().await.unwrap());
    let a = Contender::new(&store);
    let last = ((1_u64 << 53) - 1).to_string();
    for (counter, kind) in [
        ("", BackendErrorKind::WrongType),
        ("1784000000.00000", BackendErrorKind::WrongType),
        ("0x1f", BackendErrorKind::WrongType),
        (last.as_str(), BackendErrorKind::Misconfigured),
    ] {
        for reserve in [0, 64] {
            let refused = Err((kind, Applied::No));
            server.command(&["SET", COUNTER, counter, "PX", "500000"]);
            assert_eq!(asked(&keeps, &a, "x", LEASE, next(reserve, None)).await, refused, "{counter:?}");
            assert_eq!(server.command(&["GET", COUNTER]).text(), counter);
            let kept = server.command(&["PTTL", COUNTER]).integer();
            assert!((400_000..=500_000).contains(&kept), "{kept} ms");
            assert_eq!(asked(&store, &a, "x", LEASE, next(reserve, None)).await, refused, "{counter:?}");
            assert_eq!(server.command(&["GET", COUNTER]).text(), counter);
            let kept = server.command(&["PTTL", COUNTER]).integer();
            assert!((400_000..=500_000).contains(&kept), "{kept} ms");
        }
    }
    assert_eq!(server.keys(), [COUNTER]);
}

/// A floor is checked before anything is written.
#[tokio::test]
async fn refused_floor_leaves_the_counter_unchanged() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    let a = Contender::new(&store);
    let beyond = || next(0, Some(FencingToken::new((1 << 53) - 1)));
    let refused = Err((BackendErrorKind::Misconfigured, Applied::No));
    assert_eq!(asked(&store, &a, "x", LEASE, beyond()).await, refused);
    assert_eq!(server.keys(), Vec::<String>::new());
    server.command(&["SET", COUNTER, "7", "PX", "500000"]);
    assert_eq!(asked(&store, &a, "x", LEASE, beyond()).await, refused);
    assert_eq!(server.command(&["GET", COUNTER]).text(), "7");
    let kept = server.command(&["PTTL", COUNTER]).integer();
    assert!((400_000..=500_000).contains(&kept), "{kept} ms");
}

/// `DEL` would delete a user's string with that name.
#[tokio::test]
async fn forced_release_deletes_no_data_of_other_programs() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    server.command(&["SET", "greeting", "hello"]);
    let forced =
        store.force_release(ForceReleaseRequest { name: name("greeting"), seen: "anybody".into() }).await;
    assert_eq!(forced.unwrap_err().kind(), BackendErrorKind::WrongType);
    let locks = factory(&server.url(), LEASE).await;
    let error = locks.force_release(&name("greeting")).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Backend);
    assert_eq!(server.command(&["GET", "greeting"]).text(), "hello");
}

/// Redisson's read-write lock adds a field to our lock.
#[tokio::test]
async fn release_keeps_the_fields_of_other_programs() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    let a = Contender::new(&store);
    a.take(&name("x"), LEASE).await;
    let reader = "b983c153-7421-469a-addb-44fb92259a1b:1";
    server.command(&["HSET", "x", "mode", "read", reader, "1"]);
    a.free(&name("x")).await;
    let left = server.command(&["HGETALL", "x"]);
    let left: Vec<_> = left.list().iter().map(|part| part.text().to_owned()).collect();
    assert_eq!(left, ["mode", "read", reader, "1"]);
    assert!(server.command(&["PTTL", "x"]).integer() > 0, "with its previous expiry");
}

/// A repeat after a lost reply must not release the next holder's lock.
#[tokio::test]
async fn forced_release_removes_the_seen_holder_and_wakes_waiters() {
    let server = RedisServer::start();
    let (locks, others) = (factory(&server.url(), LEASE).await, factory(&server.url(), LEASE).await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(others.named("x").unwrap().acquire());
    until("the other client waits for messages", async || server.subscriptions() == 1).await;
    let forced = others.force_release(&name("x")).await.unwrap();
    let ForceReleaseOutcome::Released { lease } = forced else { panic!("{forced:?}") };
    let next = waiting.await.unwrap().expect("free");
    let store = client(&server.url()).await;
    let again = store.force_release(ForceReleaseRequest { name: name("x"), seen: lease }).await.unwrap();
    assert_eq!(again.outcome, ForceReleased::HolderChanged);
    assert!(next.is_held());
    assert!(next.fencing_token() > guard.fencing_token());
    assert!(!guard.release().await.unwrap().was_held());
    assert!(next.release().await.unwrap().was_held());
}

/// Redisson's fenced lock takes a key without an expiry for a grant; ours reports an unknown time and asks again.
#[tokio::test]
async fn foreign_key_without_expiry_is_busy_for_an_unknown_time() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    server.command(&["HSET", "x", "b983c153-7421-469a-addb-44fb92259a1b:1", "1"]);
    let a = Contender::new(&store);
    let answer = asked(&store, &a, "x", LEASE, next(0, None)).await;
    assert_eq!(answer, Ok(Acquired::Busy { remaining: None }));
}

/// Lua's own formatting of numbers loses digits beyond the 14th.
#[tokio::test]
async fn large_tokens_are_exact() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    let a = Contender::new(&store);
    for counter in [4_763_640_000_123_456_u64, (1 << 53) - 3] {
        server.command(&["SET", "redisson_lock_token:{x}", &counter.to_string()]);
        let tokens = a.take(&name("x"), LEASE).await;
        assert_eq!(tokens.first.get(), counter + 1, "the counter is ahead of the clock");
        assert_eq!(server.command(&["GET", "redisson_lock_token:{x}"]).text(), (counter + 1).to_string());
        a.free(&name("x")).await;
    }
}

/// For fleets that share fenced locks with Redisson. A plain `SET` would drop an expiry that another program set.
#[tokio::test]
async fn without_a_retention_a_counter_keeps_its_expiry() {
    let server = RedisServer::start();
    let backend = RedisBackendBuilder::from_url(&server.url()).unwrap().retention(None);
    let store: Arc<dyn Backend> = Arc::new(backend.connect().await.unwrap());
    let a = Contender::new(&store);
    a.take(&name("x"), LEASE).await;
    assert_eq!(server.command(&["PTTL", COUNTER]).integer(), -1);
    a.free(&name("x")).await;
    server.command(&["PEXPIRE", COUNTER, "500000"]);
    a.take(&name("x"), LEASE).await;
    let kept = server.command(&["PTTL", COUNTER]).integer();
    assert!((400_000..=500_000).contains(&kept), "{kept} ms");
}

/// Redisson counts from 1 if the counter is missing; ours counts microseconds.
#[tokio::test]
async fn counter_restarted_by_redisson_is_warned_of_once() {
    let heard = ThreadLog::listen(LevelFilter::INFO);
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    let a = Contender::new(&store);
    for _ in 0..3 {
        a.take(&name("x"), LEASE).await;
        a.free(&name("x")).await;
    }
    assert_eq!(heard.count("fencing counter"), 0);
    for restarted in ["1", "2"] {
        server.command(&["SET", COUNTER, restarted]);
        a.take(&name("x"), LEASE).await;
        a.free(&name("x")).await;
    }
    assert_eq!(heard.count("fencing counter"), 1);
    assert_eq!(heard.count("retention(None)"), 1, "with the remedy");
}

#[tokio::test]
async fn tokens_rise_across_the_expiry_of_a_counter_with_a_floor() {
    let server = RedisServer::start();
    let builder = RedisBackendBuilder::from_url(&server.url()).unwrap();
    let backend = builder.retention(Some(Duration::from_secs(1))).connect().await.unwrap();
    let locks = LockFactory::new(backend);
    let lock = locks.named("x").unwrap();
    let now = locks.named("y").unwrap().acquire().await.unwrap().fencing_token().get();
    let floor = FencingToken::new(now + 3_600_000_000);
    let first = lock.with_options(lock.options().token_floor(floor)).unwrap().acquire().await.unwrap();
    let first_token = first.fencing_token();
    first.release().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let second = lock.acquire().await.unwrap();
    assert!(second.fencing_token() > first_token, "{} after {first_token}", second.fencing_token());
}

#[tokio::test]
async fn one_try_reenters_a_valid_hold_after_a_small_clock_step() {
    let clock = ClockShift::new();
    let server = RedisServer::builder().clock(&clock).start();
    let locks = LockFactory::builder(redis(&server.url()).await).options(LockOptions::new()).build().unwrap();
    let lock = locks.named("x").unwrap();
    let outer = lock.acquire().await.unwrap();
    clock.set(5);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let inner = lock.with_owner(outer.hold().owner()).unwrap().try_acquire().await;
    assert!(outer.is_held());
    assert!(inner.is_ok(), "{inner:?}");
}
