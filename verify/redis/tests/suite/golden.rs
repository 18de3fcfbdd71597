//! The stored data, byte for byte, read with raw commands.

use super::support::{client, factory, name};
use lock_core::{
    LockOptions, Retention,
    backend::{Acquired, NotifyWaiters, Released},
};
use lock_testkit::{RawRedis, RedisServer, contender::Contender};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);

/// Returns the hash at a key as a list of fields and depths.
fn hash(raw: &mut RawRedis, key: &str) -> Vec<String> {
    let list = raw.command(&["HGETALL", key]);
    list.list().iter().map(|value| value.text().to_owned()).collect()
}

fn pttl(raw: &mut RawRedis, key: &str) -> i64 {
    raw.command(&["PTTL", key]).integer()
}

#[tokio::test]
async fn lease_is_a_hash_with_its_depth_and_an_expiry() {
    let server = RedisServer::start();
    let (store, mut raw, lock) = (client(&server.url()).await, server.raw(), name("stock:42"));
    let (a, b) = (Contender::new(&store), Contender::new(&store));
    let field = a.lease().to_string();

    let tokens = a.take(&lock, LEASE).await;
    assert_eq!(raw.command(&["TYPE", "stock:42"]).text(), "hash");
    assert_eq!(hash(&mut raw, "stock:42"), [field.as_str(), "1"]);
    assert!((25_000..=30_000).contains(&pttl(&mut raw, "stock:42")));
    let counter = raw.command(&["GET", "redisson_lock_token:{stock:42}"]);
    assert_eq!(counter.text(), tokens.last.get().to_string(), "all digits, no exponent");
    let hour = 60 * 60 * 1000;
    let kept = pttl(&mut raw, "redisson_lock_token:{stock:42}");
    assert!((hour - 10_000..=hour).contains(&kept), "the counter is kept for an hour, not {kept} ms");

    a.keep(&lock, 2, LEASE).await;
    assert_eq!(hash(&mut raw, "stock:42"), [field.as_str(), "2"]);
    assert!(matches!(b.acquire(&lock, LEASE).await, Acquired::Busy { remaining: Some(_), .. }));
    assert_eq!(b.release(&lock, 0).await, Released::Gone { held_by_other: true });
    assert_eq!(hash(&mut raw, "stock:42"), [field.as_str(), "2"], "nothing is written");
    assert_eq!(a.release(&lock, 1).await, Released::Kept);
    assert_eq!(hash(&mut raw, "stock:42"), [field.as_str(), "1"]);
    a.free(&lock).await;
    assert_eq!(server.keys(), ["redisson_lock_token:{stock:42}"]);
}

#[tokio::test]
async fn lock_can_set_the_retention_of_its_counter() {
    let server = RedisServer::start();
    let mut raw = server.raw();
    let locks = factory(&server.url(), LEASE).await;
    for (name, retention, kept) in [
        ("minute", Retention::For(Duration::from_secs(60)), 50_000..=60_000),
        ("forever", Retention::Forever, -1..=-1),
        ("default", Retention::Backend, 3_590_000..=3_600_000),
    ] {
        let lock = locks.named(name).unwrap().with_options(LockOptions::new().retention(retention)).unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        let ttl = pttl(&mut raw, &format!("redisson_lock_token:{{{name}}}"));
        assert!(kept.contains(&ttl), "{name}: {ttl} ms");
    }
}

#[tokio::test]
async fn last_release_publishes_a_zero_once() {
    let server = RedisServer::start();
    let (store, mut raw, lock) = (client(&server.url()).await, server.raw(), name("stock:{eu}:42"));
    raw.command(&["SUBSCRIBE", "redisson_lock__channel:stock:{eu}:42"]);
    let a = Contender::new(&store);
    a.take(&lock, LEASE).await;
    a.take(&lock, LEASE).await;
    a.keep(&lock, 2, LEASE).await;
    a.release(&lock, 1).await;
    let freed = a.release(&lock, 0).await;
    assert_eq!(freed, Released::Released { listeners: Some(1) });
    a.release(&lock, 0).await;
    a.take(&lock, LEASE).await;
    assert_eq!(
        a.release_with(&lock, 0, NotifyWaiters::EvenIfGone).await,
        Released::Released { listeners: Some(1) },
        "by two commands"
    );
    // The undo of a lost quorum round does not notify.
    a.take(&lock, LEASE).await;
    assert_eq!(
        a.release_with(&lock, 0, NotifyWaiters::No).await,
        Released::Released { listeners: None },
        "without a message"
    );
    server.command(&["PUBLISH", "redisson_lock__channel:stock:{eu}:42", "end"]);

    let mut heard = Vec::new();
    while heard.last().map(String::as_str) != Some("end") {
        let message = raw.receive().expect("the messages arrive");
        heard.push(message.list()[2].text().to_owned());
    }
    assert_eq!(heard, ["0", "0", "end"]);
}

#[tokio::test]
async fn lease_id_is_written_as_java_writes_it() {
    let server = RedisServer::start();
    let locks = factory(&server.url(), LEASE).await;
    let guard = locks.named("stock:42").expect("valid name").acquire().await.expect("free");
    let field = hash(&mut server.raw(), "stock:42").remove(0);
    let (process, number) = field.split_once(':').expect("two parts");
    assert_eq!(process.len(), 36);
    assert_eq!(process, process.to_lowercase());
    assert!(number.parse::<i64>().expect("a Java thread id is an i64") >= 0);
    guard.release().await.expect("the server answers");
}
