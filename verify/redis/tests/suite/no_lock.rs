//! Hashes that are not locks: reported as a wrong type, never deleted.

use super::support::{client, factory, name};
use lock_core::{
    LockErrorKind,
    backend::{BackendErrorKind, ForceReleaseRequest, ForceReleased, Inspected},
    inspect::ForceReleaseOutcome,
};
use lock_testkit::RedisServer;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);
const HOLDER: &str = "b983c153-7421-469a-addb-44fb92259a1b:12";

/// Asserts that inspecting and forcing `key` fails with a wrong type and keeps every field. `seen` is an existing
/// field.
async fn is_refused_and_kept(server: &RedisServer, key: &str, seen: &str) {
    let fields = server.command(&["HLEN", key]).integer();
    let store = client(&server.url()).await;
    let inspected = store.inspect(name(key)).await.expect_err("not a lock");
    assert_eq!(inspected.kind(), BackendErrorKind::WrongType, "{inspected}");
    let request = ForceReleaseRequest { name: name(key), seen: seen.to_owned() };
    let forced = store.force_release(request).await.expect_err("not a lock");
    assert_eq!(forced.kind(), BackendErrorKind::WrongType, "{forced}");
    let locks = factory(&server.url(), LEASE).await;
    assert_eq!(locks.force_release(key).await.unwrap_err().kind(), LockErrorKind::Backend);
    assert_eq!(server.command(&["HLEN", key]).integer(), fields, "no field of {key} is deleted");
}

#[tokio::test]
async fn hash_of_another_program_is_kept() {
    let server = RedisServer::start();
    server.command(&["HSET", "cart", "apples", "3", "pears", "many"]);
    is_refused_and_kept(&server, "cart", "apples").await;
    server.command(&["HSET", "settings", "retries", "5"]);
    is_refused_and_kept(&server, "settings", "retries").await;
}

/// Redisson's group lock has long field names and several fields.
#[tokio::test]
async fn group_lock_of_redisson_is_kept() {
    let server = RedisServer::start();
    let count = format!("{HOLDER}:{}:lock_count", "v".repeat(64));
    server.command(&["HSET", "group", &count, "1", &format!("{HOLDER}:values"), "a"]);
    is_refused_and_kept(&server, "group", &count).await;
    server.command(&["HSET", "single", &count, "1"]);
    is_refused_and_kept(&server, "single", &count).await;
}

/// Redisson's read-write lock with more readers than a listpack holds: its fields are returned in random order.
#[tokio::test]
async fn read_write_lock_of_redisson_with_many_readers_is_kept() {
    let server = RedisServer::start();
    let mut fields = vec!["HSET".to_owned(), "rw".to_owned(), "mode".to_owned(), "read".to_owned()];
    for number in 0..600 {
        fields.extend([format!("b983c153-7421-469a-addb-44fb92259a1b:{number}"), "1".to_owned()]);
    }
    server.command(&fields);
    is_refused_and_kept(&server, "rw", HOLDER).await;
}

#[tokio::test]
async fn field_without_a_positive_count_is_not_a_lock() {
    let server = RedisServer::start();
    for count in ["0", "-1", "1.5", "01", "one", "99999999999", ""] {
        server.command(&["HSET", "x", HOLDER, count]);
        is_refused_and_kept(&server, "x", HOLDER).await;
    }
}

#[tokio::test]
async fn holder_of_java_with_a_negative_thread_is_a_lock() {
    let server = RedisServer::start();
    let holder = "b983c153-7421-469a-addb-44fb92259a1b:-12";
    server.command(&["HSET", "x", holder, "2"]);
    let store = client(&server.url()).await;
    let Inspected::Held(hold) = store.inspect(name("x")).await.unwrap().outcome else { panic!("not held") };
    assert_eq!((hold.lease.as_str(), hold.depth, hold.remaining), (holder, 2, None));
    let locks = factory(&server.url(), LEASE).await;
    let ForceReleaseOutcome::Released { lease } = locks.force_release("x").await.unwrap() else {
        panic!("not held")
    };
    assert_eq!(lease, holder);
    let again = store.force_release(ForceReleaseRequest { name: name("x"), seen: lease }).await.unwrap();
    assert_eq!(again.outcome, ForceReleased::HolderChanged);
}
