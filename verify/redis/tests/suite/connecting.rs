//! Unusable servers: each gives a typed error in time, with the remedy.

use super::support::{answered, client, factory, long, name, redis};
use crate::client::{BEFORE_REDIS_6, ConnectWarning, RedisBackend, RedisBackendBuilder};
use lock_core::{Connectors, LockError, LockErrorKind, LockFactory, backend::BackendErrorKind};
use lock_testkit::{RedisServer, TcpProxy, contender::Contender, unused_address};
use std::{
    error::Error,
    time::{Duration, Instant},
};

const LEASE: Duration = Duration::from_secs(30);
/// A lease that a watchdog can renew even on a busy machine, and whose end a test can await.
const KEPT: Duration = Duration::from_secs(5);

/// Returns all texts of an error, and asserts that none contains a secret.
fn texts(error: &LockError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(" {cause} {cause:?}");
        source = cause.source();
    }
    assert!(!text.contains("canary"), "{text}");
    text
}

/// Asserts that connecting fails at the first answer, with this kind and this text, instead of retrying for an hour.
pub(super) async fn refused(url: &str, kind: BackendErrorKind, says: &str) {
    let patient = RedisBackendBuilder::from_url(url).unwrap().connect_timeout(Duration::from_secs(3_600));
    let connecting = answered("connecting", patient.connect_store()).await;
    let error = connecting.map(drop).expect_err("unusable as it is");
    let text = texts(&error);
    assert_eq!(error.backend_error().expect("server fault").kind(), kind, "{text}");
    assert!(text.contains(says), "missing {says:?}: {text}");
}

#[tokio::test]
async fn missing_password_is_reported() {
    let server = RedisServer::builder().password("canary").start();
    let port = server.port();
    refused(&server.url(), BackendErrorKind::Denied, "use the correct user and password").await;
    refused(&format!("redis://:canary2@127.0.0.1:{port}"), BackendErrorKind::Denied, "WRONGPASS").await;
    refused(&format!("redis://app:canary@127.0.0.1:{port}"), BackendErrorKind::Denied, "WRONGPASS").await;
    let backend = redis(&format!("redis://:canary@127.0.0.1:{port}")).await;
    assert!(!format!("{backend:?}").contains("canary"));
    let builder = RedisBackendBuilder::from_url(&format!("redis://:canary@127.0.0.1:{port}")).unwrap();
    assert!(!format!("{builder:?}").contains("canary"));
}

/// Each command that a script uses is denied in turn.
#[tokio::test]
async fn missing_permission_is_named_on_connecting() {
    let server = RedisServer::builder().user("shop on >canary ~* &* +@all").start();
    let url = format!("redis://shop:canary@127.0.0.1:{}", server.port());
    for command in [
        "HSET", "HGET", "HEXISTS", "HGETALL", "EXISTS", "PTTL", "PEXPIRE", "GET", "SET", "PUBLISH", "HDEL",
        "TIME",
    ] {
        server.command(&["ACL", "SETUSER", "shop", &format!("-{}", command.to_lowercase())]);
        refused(&url, BackendErrorKind::Denied, &format!("({command})")).await;
        server.command(&["ACL", "SETUSER", "shop", &format!("+{}", command.to_lowercase())]);
    }
    for command in ["evalsha", "eval", "subscribe", "unsubscribe", "ping"] {
        server.command(&["SCRIPT", "FLUSH"]);
        server.command(&["ACL", "SETUSER", "shop", &format!("-{command}")]);
        refused(&url, BackendErrorKind::Denied, &format!("'{command}'")).await;
        server.command(&["ACL", "SETUSER", "shop", &format!("+{command}")]);
    }
    server.command(&["ACL", "SETUSER", "shop", "resetkeys", "~stock:*"]);
    refused(&url, BackendErrorKind::Denied, "docs/protocol.md").await;
    server.command(&["ACL", "SETUSER", "shop", "~*", "resetchannels"]);
    refused(&url, BackendErrorKind::Denied, "channel").await;
    server.command(&["ACL", "SETUSER", "shop", "&*"]);
    redis(&url).await;
}

#[tokio::test]
async fn replica_is_refused_with_its_master_as_the_remedy() {
    let master = RedisServer::start();
    let replica = RedisServer::builder().replica_of(&master).start();
    refused(&replica.url(), BackendErrorKind::Misconfigured, "use the address of its master").await;
}

#[tokio::test]
async fn cluster_member_is_refused_as_such() {
    let server = RedisServer::builder().config("cluster-enabled", "yes").start();
    refused(&server.url(), BackendErrorKind::Misconfigured, "write `redis-cluster://`").await;
    // A member that hides its configuration and serves no key.
    server.command(&["ACL", "SETUSER", "silent", "on", ">canary", "~*", "&*", "+@all", "-info"]);
    let silent = format!("redis://silent:canary@127.0.0.1:{}", server.port());
    refused(&silent, BackendErrorKind::Misconfigured, "Redis Cluster").await;
}

#[tokio::test]
async fn unreachable_server_fails_at_once() {
    let address = unused_address().to_string();
    refused(&format!("redis://:canary@{address}"), BackendErrorKind::Unavailable, &address).await;
    refused("redis+unix:///there/is/no/socket", BackendErrorKind::Unavailable, "/there/is/no/socket").await;
}

#[tokio::test]
async fn silent_server_is_an_error_in_time() {
    let server = RedisServer::start();
    server.pause();
    let begin = Instant::now();
    let limit = Duration::from_millis(700);
    let builder = RedisBackendBuilder::from_url(&server.url()).unwrap().connect_timeout(limit);
    let error = answered("connecting", builder.connect()).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    assert!(texts(&error).contains("is a Redis server running there?"), "{}", texts(&error));
    assert!(begin.elapsed() >= limit, "{:?}", begin.elapsed());
    assert!(!long() || begin.elapsed() < 3 * limit, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn another_program_at_the_address_is_refused() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://127.0.0.1:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let error = RedisBackend::connect(&url).await.map(drop).unwrap_err();
    assert!(matches!(error.kind(), LockErrorKind::Backend | LockErrorKind::Unavailable), "{error:?}");
}

/// A server without free memory refuses new locks, but still renews and releases existing ones.
#[tokio::test]
async fn server_without_memory_keeps_existing_locks() {
    let server = RedisServer::start();
    let locks = factory(&server.url(), KEPT).await;
    let held = locks.named("held").unwrap().acquire().await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = locks.named("x").unwrap().try_acquire().await.map(drop).unwrap_err();
    assert_eq!(
        (error.kind(), error.is_retryable(), error.is_ambiguous()),
        (LockErrorKind::Unavailable, true, false)
    );
    assert!(texts(&error).contains("raise `maxmemory`"), "{}", texts(&error));
    tokio::time::sleep(KEPT).await;
    assert!(held.is_held(), "renewed");
    assert!(held.release().await.unwrap().was_held());
    // A waiting acquire survives the refusals.
    let waiting = tokio::spawn(locks.named("x").unwrap().acquire());
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    waiting.await.unwrap().expect("there is room again").release().await.unwrap();
}

#[tokio::test]
async fn server_that_becomes_a_replica_is_unavailable() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let locks = factory(&server.url(), KEPT).await;
    server.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    let error = locks.named("x").unwrap().try_acquire().await.map(drop).unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (LockErrorKind::Unavailable, true));
    let waiting = tokio::spawn(locks.named("x").unwrap().acquire());
    server.command(&["REPLICAOF", "NO", "ONE"]);
    waiting.await.unwrap().expect("a master again").release().await.unwrap();
}

#[tokio::test]
async fn key_of_another_type_is_refused_at_once() {
    let server = RedisServer::start();
    server.command(&["SET", "greeting", "hello"]);
    let locks = factory(&server.url(), LEASE).await;
    let acquiring = locks.named("greeting").unwrap().acquire();
    let error = answered("the acquire", acquiring).await.map(drop).unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (LockErrorKind::Backend, false));
    assert!(texts(&error).contains("use another lock name"), "{}", texts(&error));
}

#[tokio::test]
async fn revoked_permission_is_an_immediate_error() {
    let server = RedisServer::builder().user("shop on >canary ~* &* +@all").start();
    let locks = factory(&format!("redis://shop:canary@127.0.0.1:{}", server.port()), LEASE).await;
    server.command(&["ACL", "SETUSER", "shop", "-evalsha"]);
    let error = answered("the acquire", locks.named("x").unwrap().acquire()).await.map(drop).unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (LockErrorKind::Backend, false));
    assert!(texts(&error).contains("docs/protocol.md"), "{}", texts(&error));
}

#[tokio::test]
async fn evicting_server_is_warned_of() {
    let server = RedisServer::builder()
        .config("maxmemory", "100mb")
        .config("maxmemory-policy", "volatile-lru")
        .start();
    let backend = redis(&server.url()).await;
    assert_eq!(backend.warnings(), [ConnectWarning::Evicts { policy: "volatile-lru".into() }]);
    assert!(backend.warnings()[0].to_string().contains("noeviction"));
    assert!(redis(&RedisServer::start().url()).await.warnings().is_empty());
}

#[tokio::test]
async fn server_without_info_is_used_with_a_warning() {
    let server = RedisServer::builder().user("shop on >canary ~* &* +@all -info").start();
    let backend = redis(&format!("redis://shop:canary@127.0.0.1:{}", server.port())).await;
    assert!(matches!(backend.warnings(), [ConnectWarning::NotChecked { .. }]));
}

#[tokio::test]
async fn connecting_leaves_no_key_and_no_subscription() {
    let server = RedisServer::start();
    let backend = redis(&server.url()).await;
    assert_eq!((server.clients(), server.subscriptions()), (2, 0));
    super::support::until("the keys of the check are gone", async || server.keys().is_empty()).await;
    drop(backend);
    super::support::until("the connections are closed", async || server.clients() == 0).await;
}

#[tokio::test]
async fn each_database_has_its_own_locks() {
    let server = RedisServer::start();
    let (zero, two) = (client(&server.url()).await, client(&format!("{}/2", server.url())).await);
    Contender::new(&zero).take(&name("x"), LEASE).await;
    Contender::new(&two).take(&name("x"), LEASE).await;
    let mut raw = server.raw();
    raw.command(&["SELECT", "2"]);
    assert_eq!(raw.command(&["TYPE", "x"]).text(), "hash");
}

#[tokio::test]
async fn unix_socket_is_accepted() {
    let server = RedisServer::builder().password("canary").unix_socket().start();
    let path = server.unix_socket_path().unwrap();
    let url = format!("redis+unix://{}?db=1&pass=canary", path.display());
    let backend = Connectors::default().with(crate::client::Redis).connect(&url).await.unwrap();
    let locks = LockFactory::new(backend);
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    refused(&format!("redis+unix://{}", path.display()), BackendErrorKind::Denied, "password").await;
}

/// A refused password does not stop the dialling.
#[tokio::test]
async fn temporary_change_of_the_password_is_survived() {
    let server = RedisServer::builder().password("canary").start();
    let proxy = TcpProxy::start(server.address());
    let locks = factory(&format!("redis://:canary@127.0.0.1:{}", proxy.port()), Duration::from_secs(3)).await;
    let mut admin = server.raw();
    admin.command(&["CONFIG", "SET", "requirepass", "another"]);
    proxy.cut();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(locks.named("x").unwrap().try_acquire().await.is_err());
    admin.command(&["CONFIG", "SET", "requirepass", "canary"]);
    super::support::until("locks are granted again", async || {
        locks.named("x").unwrap().try_acquire().await.is_ok()
    })
    .await;
}

/// A network path that drops everything is noticed and the connection replaced, long before TCP gives up.
#[tokio::test]
async fn dead_connection_is_replaced() {
    let server = RedisServer::start();
    let proxy = TcpProxy::start(server.address());
    let locks = factory(&proxy.url(), Duration::from_secs(3)).await;
    let before = proxy.accepted();
    proxy.stall(lock_testkit::Direction::Both);
    super::support::until("another connection is dialled", async || {
        let _ = locks.named("x").unwrap().try_acquire().await;
        proxy.accepted() > before
    })
    .await;
    proxy.pass();
    super::support::until("locks are granted again", async || {
        locks.named("x").unwrap().try_acquire().await.is_ok()
    })
    .await;
}

/// The answers of Redis 5.
#[tokio::test]
async fn server_before_6_is_reported_as_too_old() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                    let said = String::from_utf8_lossy(&bytes[..read]).to_uppercase();
                    let answer = match said.lines().nth(2) {
                        Some("AUTH") if said.starts_with("*2") => "+OK\r\n",
                        Some("AUTH") => "-ERR wrong number of arguments for 'auth' command\r\n",
                        Some("INFO") => {
                            "$53\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\nrole:m\r\n\r\n"
                        }
                        Some("CLIENT") => ":7\r\n",
                        Some("HELLO") => {
                            "-ERR unknown command `HELLO`, with args beginning with: `canary`, \r\n"
                        }
                        _ => "+OK\r\n",
                    };
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    for (login, says) in ["", ":canary@", "app:canary@"].into_iter().zip(BEFORE_REDIS_6) {
        refused(&format!("redis://{login}127.0.0.1:{port}"), BackendErrorKind::Misconfigured, says).await;
    }
}
