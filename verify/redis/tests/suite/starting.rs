//! A process starts during a failure: what `connect` returns, what a lazy start reports until the failure has ended,
//! and the places in which the reason is read.

use super::support::{answered, until};
use crate::client::{RedisBackend, RedisBackendBuilder};
use lock_core::{LockError, LockErrorKind, LockFactory};
use lock_redis::client::Credentials;
use lock_testkit::{ClockShift, RawRedis, RedisCluster, RedisSentinels, RedisServer, TcpProxy, ThreadLog};
use lock_tower::LockLayer;
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tower::{Layer, ServiceExt, service_fn};
use tracing::level_filters::LevelFilter;

fn builder(url: &str) -> RedisBackendBuilder {
    RedisBackendBuilder::from_url(url).unwrap().connect_timeout(Duration::from_millis(900))
}

/// Returns the error of an acquire, the health, and the log line of a request that is rejected with 503.
async fn places(locks: &LockFactory) -> [String; 3] {
    let error = locks.named("x").unwrap().try_acquire().await.map(drop).expect_err("there is a failure");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error:#}");
    let health = locks.health().await;
    assert!(!health.is_healthy());
    let log = ThreadLog::listen(LevelFilter::WARN);
    let handler =
        service_fn(|_: http::Request<()>| async { Ok::<_, Infallible>(http::Response::new(String::new())) });
    let layer = LockLayer::new(locks.clone()).wait(Duration::from_millis(900)).key("x");
    let response = layer.layer(handler).oneshot(http::Request::new(())).await.unwrap();
    assert_eq!(response.status(), 503);
    [format!("{error:#}"), health.to_string(), log.text()]
}

/// Waits until the reason is read in all places.
pub(super) async fn is_told(locks: &LockFactory, says: &str) {
    let mut read = [const { String::new() }; 3];
    let told = async {
        loop {
            read = places(locks).await;
            if read.iter().all(|place| place.contains(says)) {
                return;
            }
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(60), told).await;
    assert!(told.is_ok(), "missing {says:?} in error, health or log: {read:#?}");
}

async fn cycle(locks: &LockFactory, name: &str) {
    let acquiring = locks.named(name).unwrap().acquire();
    answered("the acquire", acquiring).await.expect("the failure has ended").release().await.unwrap();
}

/// Starts a process during a failure: eagerly, which fails with this kind, and lazily, which survives it.
async fn starts_during(
    server: &RedisServer,
    login: &str,
    (kind, says): (LockErrorKind, &str),
    cause: impl FnOnce(&RedisServer),
    cure: impl FnOnce(&RedisServer),
) {
    cause(server);
    let url = format!("redis://{login}127.0.0.1:{}", server.port());
    let error: LockError = answered("connecting", builder(&url).connect()).await.map(drop).expect_err(says);
    assert_eq!((error.kind(), error.is_ambiguous()), (kind, false), "{error:#}");
    assert!(format!("{error:#}").contains(says), "missing {says:?}: {error:#}");
    let locks = LockFactory::new(builder(&url).connect_lazy().unwrap());
    is_told(&locks, says).await;
    let error = locks.named("x").unwrap().try_acquire().await.map(drop).expect_err(says);
    assert_eq!((error.kind(), error.is_ambiguous()), (LockErrorKind::Unavailable, false), "{error:#}");
    cure(server);
    cycle(&locks, "x").await;
    until("the health check succeeds", async || locks.health().await.is_healthy()).await;
}

const UNAVAILABLE: LockErrorKind = LockErrorKind::Unavailable;
const REFUSED: LockErrorKind = LockErrorKind::Backend;

fn set(server: &RedisServer, name: &str, value: &str) {
    assert_eq!(server.command(&["CONFIG", "SET", name, value]).text(), "OK");
}

#[tokio::test]
async fn start_while_the_server_is_down_or_silent() {
    let server = RedisServer::start();
    starts_during(&server, "", (UNAVAILABLE, "Connection refused"), RedisServer::stop, RedisServer::restart)
        .await;
    starts_during(&server, "", (UNAVAILABLE, "no reply within"), RedisServer::pause, RedisServer::resume)
        .await;
}

#[tokio::test]
async fn start_with_a_refused_login_or_a_missing_permission() {
    let server = RedisServer::builder().user("shop on >canary ~* &* +@all").start();
    let rule = |rule: &'static str| {
        move |server: &RedisServer| assert_eq!(server.command(&["ACL", "SETUSER", "shop", rule]).text(), "OK")
    };
    for (cause, cure, says) in [
        ("resetpass", ">canary", "WRONGPASS"),
        ("-evalsha", "+evalsha", "'evalsha'"),
        ("-hset", "+hset", "(HSET)"),
        ("-subscribe", "+subscribe", "'subscribe'"),
        ("resetchannels", "&*", "&redisson_lock__channel:*"),
    ] {
        server.command(&["SCRIPT", "FLUSH"]);
        starts_during(&server, "shop:canary@", (REFUSED, says), rule(cause), rule(cure)).await;
    }
    let narrow = |server: &RedisServer| {
        server.command(&["ACL", "SETUSER", "shop", "resetkeys", "~shop:*"]);
    };
    starts_during(&server, "shop:canary@", (REFUSED, "~redisson_lock_token:*"), narrow, rule("~*")).await;
}

#[tokio::test]
async fn start_while_the_server_has_too_many_clients() {
    let server = RedisServer::start();
    set(&server, "maxclients", "12");
    let connect = || {
        let mut other = RawRedis::connect(server.address()).ok()?;
        (!other.try_command(&["PING"]).ok()?.is_error()).then_some(other)
    };
    let others: Vec<_> = std::iter::from_fn(connect).collect();
    let says = "raise `maxclients`, or open fewer factories";
    let url = server.url();
    // The server closes the connection after its reply, which may arrive after the end of the connection.
    let error = loop {
        let error = builder(&url).connect().await.map(drop).expect_err("no more clients");
        if !format!("{error:#}").contains("reset") {
            break error;
        }
    };
    assert_eq!(error.kind(), UNAVAILABLE, "{error:#}");
    assert!(format!("{error:#}").contains(says), "{error:#}");
    let locks = LockFactory::new(builder(&url).connect_lazy().unwrap());
    is_told(&locks, says).await;
    drop(others);
    cycle(&locks, "x").await;
}

#[tokio::test]
async fn start_while_the_server_is_a_replica() {
    let server = RedisServer::start();
    let becomes = |to: [&'static str; 2]| {
        move |server: &RedisServer| assert_eq!(server.command(&["REPLICAOF", to[0], to[1]]).text(), "OK")
    };
    let says = (REFUSED, "use the address of its master");
    starts_during(&server, "", says, becomes(["127.0.0.1", "1"]), becomes(["NO", "ONE"])).await;
}

#[tokio::test]
async fn start_while_the_server_refuses_writes() {
    let server = RedisServer::builder().config("lua-time-limit", "10").start();
    for (name, bad, good, says) in
        [("maxmemory", "1", "0", "raise `maxmemory`"), ("min-replicas-to-write", "1", "0", "NOREPLICAS")]
    {
        let (cause, cure) =
            (|server: &RedisServer| set(server, name, bad), |server: &RedisServer| set(server, name, good));
        starts_during(&server, "", (UNAVAILABLE, says), cause, cure).await;
    }
    // Logins are impossible in the meantime; these connections are already logged in.
    let (mut killer, mut looks) = (server.raw(), server.raw());
    let cause = move |server: &RedisServer| {
        server.raw().send(&["EVAL", "while true do end", "0"]).unwrap();
        while !looks.command(&["GET", "x"]).is_error() {}
    };
    let cure = move |_: &RedisServer| drop(killer.command(&["SCRIPT", "KILL"]));
    starts_during(&server, "", (UNAVAILABLE, "BUSY"), cause, cure).await;
}

#[tokio::test]
async fn start_while_the_server_cannot_save() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("data");
    std::fs::create_dir(&place).unwrap();
    let server = RedisServer::builder().persistent().config("dir", place.to_str().unwrap()).start();
    let cause = |server: &RedisServer| {
        std::fs::remove_dir_all(&place).unwrap();
        server.command(&["BGSAVE"]);
        let says = || server.command(&["INFO", "persistence"]).text().to_owned();
        while !says().contains("rdb_last_bgsave_status:err") {}
    };
    let cure = |server: &RedisServer| set(server, "stop-writes-on-bgsave-error", "no");
    starts_during(&server, "", (UNAVAILABLE, "MISCONF"), cause, cure).await;
}

/// The server has lost its data or its scripts, or has foreign data: a start takes no notice.
#[tokio::test]
async fn start_after_the_server_lost_its_data() {
    let server = RedisServer::builder().persistent().start();
    let locks = LockFactory::new(RedisBackend::connect(&server.url()).await.unwrap());
    cycle(&locks, "x").await;
    let dump = server.dump();
    let failures: [&dyn Fn(); 6] = [
        &|| server.restart_empty(),
        &|| server.restart_from(&dump),
        &|| drop(server.command(&["FLUSHALL"])),
        &|| drop(server.command(&["SCRIPT", "FLUSH"])),
        &|| drop(server.command(&["SET", "greeting", "hello"])),
        &|| drop(server.command(&["HSET", "profile", "name", "ann"])),
    ];
    for fails in failures {
        fails();
        let backend = RedisBackend::connect(&server.url()).await.unwrap();
        assert!(backend.warnings().is_empty());
        cycle(&LockFactory::new(backend), "x").await;
    }
}

#[tokio::test]
async fn start_after_the_clock_of_the_server_stepped() {
    let clock = ClockShift::new();
    let server = RedisServer::builder().clock(&clock).start();
    for hours in [0, -1, 1] {
        clock.set(hours * 3_600);
        let backend = RedisBackend::connect(&server.url()).await.unwrap();
        assert!(backend.warnings().is_empty());
        cycle(&LockFactory::new(backend), "x").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_while_the_sentinels_promote_another_master() {
    let deployment = RedisSentinels::start();
    deployment.master().stop();
    let locks = LockFactory::new(builder(&deployment.url()).connect_lazy().unwrap());
    cycle(&locks, "x").await;
    RedisBackend::connect(&deployment.url()).await.expect("the sentinels name the new master");
}

#[tokio::test]
async fn start_while_the_server_loads_its_data() {
    let server = RedisServer::builder().config("enable-debug-command", "yes").start();
    let mut looks = server.raw();
    let mut curing = server.raw();
    let cause = |server: &RedisServer| {
        server.command(&["DEBUG", "POPULATE", "20000"]);
        set(server, "key-load-delay", "1000");
        set(server, "loading-process-events-interval-bytes", "1024");
        server.raw().send(&["DEBUG", "RELOAD"]).unwrap();
        while !looks.command(&["GET", "x"]).is_error() {}
    };
    let cure = |_: &RedisServer| drop(curing.command(&["CONFIG", "SET", "key-load-delay", "0"]));
    starts_during(&server, "", (UNAVAILABLE, "LOADING"), cause, cure).await;
}

#[tokio::test]
async fn start_with_an_unknown_host() {
    let locks = LockFactory::new(builder("redis://no-such-host.invalid:6379").connect_lazy().unwrap());
    is_told(&locks, "check the host name").await;
    let [error, ..] = places(&locks).await;
    assert_eq!(error.matches("lookup").count(), 1, "{error}");
    assert!(!error.contains('"'), "{error}");
}

/// A running process reads the reason in the same places.
#[tokio::test]
async fn outage_of_a_running_process_names_its_reason() {
    let server = RedisServer::builder().password("canary").start();
    let proxy = TcpProxy::start(server.address());
    let url = format!("redis://:canary@127.0.0.1:{}", proxy.port());
    let locks = LockFactory::new(builder(&url).connect().await.unwrap());
    cycle(&locks, "x").await;
    set(&server, "requirepass", "another");
    proxy.cut();
    is_told(&locks, "WRONGPASS").await;
    set(&server, "requirepass", "canary");
    cycle(&locks, "x").await;
    proxy.refuse();
    is_told(&locks, "; for ").await;
    proxy.pass();
    cycle(&locks, "x").await;
}

/// The passwords of managed services expire.
#[tokio::test]
async fn password_that_changes_while_the_program_runs() {
    let server = RedisServer::builder().password("canary").start();
    let proxy = TcpProxy::start(server.address());
    let is_new = Arc::new(AtomicBool::new(false));
    let current = is_new.clone();
    let builder = builder(&proxy.url()).credentials(move || {
        let password = if current.load(Ordering::SeqCst) { "canary2" } else { "canary" };
        async move { Ok::<_, Infallible>(Credentials { username: None, password: Some(password.to_owned()) }) }
    });
    let locks = LockFactory::new(builder.connect().await.unwrap());
    let guard = locks.named("held").unwrap().acquire().await.unwrap();
    set(&server, "requirepass", "canary2");
    cycle(&locks, "x").await;
    is_new.store(true, Ordering::SeqCst);
    proxy.cut();
    cycle(&locks, "x").await;
    assert!(guard.release().await.unwrap().was_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lazy_start_before_a_cluster_and_sentinels() {
    let (cluster, sentinels) = (RedisCluster::start(), RedisSentinels::start());
    let servers = || cluster.servers().iter().chain(sentinels.sentinels());
    servers().for_each(RedisServer::stop);
    for (url, says) in
        [(cluster.url(), "failed to find the cluster's nodes"), (sentinels.url(), "no sentinel responded")]
    {
        assert_eq!(builder(&url).connect().await.map(drop).unwrap_err().kind(), UNAVAILABLE);
        let locks = LockFactory::new(builder(&url).connect_lazy().unwrap());
        is_told(&locks, says).await;
        let waiting = tokio::spawn(locks.named("x").unwrap().acquire());
        match url == cluster.url() {
            true => cluster.servers().iter().for_each(RedisServer::restart),
            false => sentinels.sentinels().iter().for_each(RedisServer::restart),
        }
        let guard = answered("the waiter", waiting).await.unwrap().unwrap();
        // A waiter that registered before is woken by the message.
        let others = LockFactory::new(RedisBackend::connect(&url).await.unwrap());
        let woken = tokio::spawn(locks.named("x").unwrap().acquire());
        drop(guard);
        answered("the hand-over", woken).await.unwrap().unwrap().release().await.unwrap();
        cycle(&others, "x").await;
    }
}
