//! The list of held locks: many names, other keys, limits, a cluster, a missing permission.

use super::support::{answered, factory, redis};
use lock_core::{
    LockErrorKind, LockFactory,
    backend::{BackendErrorKind, ProcessId},
    inspect::ListLimits,
};
use lock_testkit::{RedisCluster, RedisServer, TcpProxy};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

const LEASE: Duration = Duration::from_secs(30);
const MANY: usize = 100_000;

/// Stores many held locks at once.
fn fill(server: &RedisServer, names: usize) {
    let lease = format!("{}:1", ProcessId::random());
    let script = "for i = 1, ARGV[1] do redis.call('HSET', 'stock:' .. i, ARGV[2], 1) end";
    server.command(&["EVAL", script, "0", &names.to_string(), &lease]);
}

#[tokio::test]
async fn list_is_bounded_in_names_and_time() {
    let server = RedisServer::start();
    fill(&server, MANY);
    let locks = factory(&server.url(), LEASE).await;
    let begin = Instant::now();
    let all = answered("list", locks.list("stock:", ListLimits::new().max_names(MANY))).await.unwrap();
    eprintln!("{MANY} names listed within {:?}", begin.elapsed());
    assert!(!all.truncated);
    assert_eq!(all.names.iter().collect::<BTreeSet<_>>().len(), MANY);
    assert_eq!(all.names.len(), MANY);

    let some = answered("list", locks.list("stock:", ListLimits::new())).await.unwrap();
    assert!(some.truncated);
    assert_eq!(some.names.len(), 10_000);
    let few = answered("list", locks.list("stock:4242", ListLimits::new())).await.unwrap();
    assert!(!few.truncated);
    assert_eq!(few.names.len(), 11, "4242 and 42420 to 42429");

    // A hundred pages of 50 ms each do not fit into a second.
    let proxy = TcpProxy::start(server.address());
    let slow = factory(&proxy.url(), LEASE).await;
    proxy.delay(Duration::from_millis(50));
    let in_time = ListLimits::new().max_names(MANY).max_time(Duration::from_secs(1));
    let cut = answered("list", slow.list("stock:", in_time)).await.unwrap();
    assert!(cut.truncated);
    assert!(!cut.names.is_empty() && cut.names.len() < MANY, "{}", cut.names.len());
}

#[tokio::test]
async fn list_contains_only_locks() {
    let server = RedisServer::start();
    let locks = factory(&server.url(), LEASE).await;
    let mut guards = Vec::new();
    for name in ["a*b", "a?b", "a[b]", "a\\b", "axb", "b{c}"] {
        guards.push(locks.named(name).unwrap().acquire().await.unwrap());
    }
    locks.named("released").unwrap().acquire().await.unwrap().release().await.unwrap();
    server.command(&["SET", "text", "1"]);
    server.command(&["HSET", "distlock:ledger:2:job:{a}:b", "mark", "1"]);
    server.command(&["HSET", &b"\xff\xfe"[..].escape_ascii().to_string(), "mark", "1"]);
    let list = async |prefix: &str| {
        let listing = locks.list(prefix, ListLimits::new()).await.unwrap();
        assert!(!listing.truncated);
        listing.names.iter().map(|name| name.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list("a").await, ["a*b", "a?b", "a[b]", "a\\b", "axb"]);
    for prefix in ["a*b", "a?b", "a[b]", "a\\b", "b{c}"] {
        assert_eq!(list(prefix).await, [prefix], "the prefix is not a pattern");
    }
    assert_eq!(list("").await.len(), 7, "six locks and the hash of another program");
    assert!(list("released").await.is_empty());

    let shop = LockFactory::builder(redis(&server.url()).await).prefix("shop").build().unwrap();
    let _guard = shop.named("a").unwrap().acquire().await.unwrap();
    let listing = shop.list("", ListLimits::new()).await.unwrap();
    assert_eq!(listing.names.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["a"]);
}

#[tokio::test]
async fn list_covers_every_master_of_a_cluster() {
    let cluster = RedisCluster::start();
    let locks = factory(&cluster.url(), LEASE).await;
    let mut guards = Vec::new();
    for number in 0..30 {
        guards.push(locks.named(format!("stock:{number:02}")).unwrap().acquire().await.unwrap());
    }
    let listing = locks.list("stock:", ListLimits::new()).await.unwrap();
    let held: Vec<_> = guards.iter().map(|guard| guard.name().clone()).collect();
    assert_eq!(listing.names, held);
    assert!(!listing.truncated);
    let cut = locks.list("stock:", ListLimits::new().max_names(20)).await.unwrap();
    assert!(cut.truncated && cut.names.len() == 20, "{cut:?}");
}

#[tokio::test]
async fn missing_permission_and_silent_server_are_errors() {
    let server = RedisServer::builder().user("shop on >canary ~* &* +@all -scan").start();
    let locks = factory(&format!("redis://shop:canary@127.0.0.1:{}", server.port()), LEASE).await;
    let error = locks.list("", ListLimits::new()).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Backend);
    assert_eq!(error.backend_error().unwrap().kind(), BackendErrorKind::Denied);
    assert!(format!("{error:#}").contains("docs/protocol.md"), "{error:#}");

    let proxy = TcpProxy::start(server.address());
    let locks = factory(&proxy.url(), LEASE).await;
    proxy.delay(Duration::from_secs(2));
    let short = ListLimits::new().max_time(Duration::from_millis(100));
    let error = locks.list("", short).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error:#}");
}
