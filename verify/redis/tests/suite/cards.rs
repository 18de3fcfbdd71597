//! Cards of processes: real processes, missing permissions, and malicious contents.

use super::{
    conformance::least_rights,
    support::{answered, redis, until},
};
use lock_core::{
    LockFactory, Worker,
    backend::{Directory, LeaseId, ProcessId},
    inspect::ProcessCard,
};
use lock_testkit::{RedisCluster, RedisServer, ThreadLog};
use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    time::Duration,
};
use tokio::runtime::Handle;
use tracing::level_filters::LevelFilter;

const THIS_TEST: &str = "suite::cards::inspect_names_the_process_of_a_holder";
const REDIS: &str = "LOCK_CARDS_REDIS";

/// A process that holds the lock `x` with a note; killed when it is dropped.
struct Holder(Child);

impl Holder {
    fn start(url: &str) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", THIS_TEST, "--nocapture"])
            .env(REDIS, url)
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "holds"), "the holder reports its hold");
        // Keep reading, so that the process never blocks on its output.
        std::thread::spawn(move || lines.for_each(drop));
        Self(process)
    }

    /// Makes the process shut down.
    fn stop(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Holds the lock until the standard input ends, which happens at the latest when the test ends.
async fn hold(url: &str) {
    let locks = LockFactory::builder(redis(url).await).program("shop", "1.4.2").build().unwrap();
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    guard.note("42 %");
    println!("\nholds");
    std::io::stdout().flush().unwrap();
    let (end, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lines().next();
        let _ = end.send(());
    });
    ended.await.unwrap();
    assert!(locks.shutdown().await.is_clean());
    drop(guard);
}

/// Returns the card that `inspect` shows, once there is one.
async fn card(locks: &LockFactory, name: &str) -> ProcessCard {
    let mut card = None;
    until("the holder has a card", async || {
        card = locks.inspect(name).await.unwrap().process;
        card.is_some()
    })
    .await;
    card.unwrap()
}

fn cards(server: &RedisServer) -> Vec<String> {
    let keys = server.command(&["KEYS", "distlock:process:*"]);
    keys.list().iter().map(|key| key.text().to_owned()).collect()
}

/// Waits until another process, which starts now, has written its card and a note and removed them.
async fn another_process_had_its_card(server: &RedisServer) {
    let locks = LockFactory::new(redis(&server.url()).await);
    let guard = locks.named("conformance:other").unwrap().acquire().await.unwrap();
    guard.note("here");
    card(&locks, "conformance:other").await;
    guard.release().await.unwrap();
    assert!(locks.shutdown().await.is_clean());
}

/// The holders are separate processes, which run this test with a URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inspect_names_the_process_of_a_holder() {
    if let Ok(url) = env::var(REDIS) {
        return hold(&url).await;
    }
    let server = RedisServer::start();
    let locks = LockFactory::new(redis(&server.url()).await);
    let holder = Holder::start(&server.url());
    let seen = card(&locks, "x").await;
    assert_eq!((seen.program.as_str(), seen.version.as_deref()), ("shop", Some("1.4.2")));
    assert_eq!(seen.pid, holder.0.id());
    assert!(!seen.host.is_empty());
    assert_eq!(locks.inspect("x").await.unwrap().note(), Some("42 %"));
    // The layout of the lock is Redisson's.
    let fields = server.command(&["HGETALL", "x"]);
    assert_eq!(fields.list().len(), 2);
    assert!(LeaseId::parse(fields.list()[0].text()).is_some());
    holder.stop();
    assert_eq!(cards(&server), Vec::<String>::new(), "a shutdown removes the card");

    let killed = Holder::start(&server.url());
    card(&locks, "x").await;
    let key = cards(&server).pop().unwrap();
    drop(killed);
    let left = server.command(&["PTTL", &key]).integer();
    assert!((1..=60_000).contains(&left), "expires in {left} ms");
}

#[tokio::test]
async fn missing_permission_disables_the_card_with_one_warning() {
    let log = ThreadLog::listen(LevelFilter::WARN);
    let rights = least_rights().replace("~distlock:*", "~distlock:check:*");
    let server = RedisServer::builder().user(&rights).start();
    let url = format!("redis://locks:change-me@127.0.0.1:{}", server.port());
    // In this thread, whose log the test reads.
    let here = Worker::on(Handle::current());
    let locks = LockFactory::builder(redis(&url).await).worker(here).build().unwrap();
    let guard = locks.named("conformance:x").unwrap().acquire().await.unwrap();
    let refused =
        || log.text().lines().filter(|line| line.contains("no further cards will be written")).count();
    until("the refusal is logged", async || refused() == 1).await;
    guard.note("42 %");
    another_process_had_its_card(&server).await;
    assert_eq!(refused(), 1, "{}", log.text());
    let inspection = locks.inspect("conformance:x").await.unwrap();
    assert!(inspection.stored.is_some() && inspection.process.is_none());
    guard.release().await.unwrap();
    assert!(locks.shutdown().await.is_clean());
    assert_eq!(cards(&server), Vec::<String>::new());
}

/// The permissions that locks need do not include reading and removing cards.
#[tokio::test]
async fn inspect_works_without_permission_to_read_cards() {
    let server = RedisServer::builder().user(&least_rights()).start();
    let url = format!("redis://locks:change-me@127.0.0.1:{}", server.port());
    let (locks, admin) = (LockFactory::new(redis(&url).await), LockFactory::new(redis(&server.url()).await));
    let guard = locks.named("conformance:x").unwrap().acquire().await.unwrap();
    assert_eq!(card(&admin, "conformance:x").await.pid, std::process::id());
    let inspection = locks.inspect("conformance:x").await.unwrap();
    assert!(inspection.stored.is_some() && inspection.process.is_none());
    guard.release().await.unwrap();
    assert!(locks.shutdown().await.is_clean());

    server.command(&["ACL", "SETUSER", "locks", "+getrange", "+del"]);
    let locks = LockFactory::new(redis(&url).await);
    let guard = locks.named("conformance:x").unwrap().acquire().await.unwrap();
    card(&locks, "conformance:x").await;
    let key = format!("distlock:process:{}", locks.process_id());
    guard.release().await.unwrap();
    assert!(locks.shutdown().await.is_clean());
    assert!(!cards(&server).contains(&key), "with these permissions a shutdown removes the card");
}

#[tokio::test]
async fn factory_without_card_leaves_no_key() {
    let server = RedisServer::start();
    let locks = LockFactory::builder(redis(&server.url()).await).without_card().build().unwrap();
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    guard.note("42 %");
    another_process_had_its_card(&server).await;
    assert_eq!(cards(&server), Vec::<String>::new());
    guard.release().await.unwrap();
}

/// Anyone may write to the key of a card.
#[tokio::test]
async fn malicious_card_does_not_affect_its_readers() {
    let server = RedisServer::start();
    let backend = redis(&server.url()).await;
    let locks = LockFactory::builder(backend.clone()).without_card().build().unwrap();
    let _guard = locks.named("x").unwrap().acquire().await.unwrap();
    let key = format!("distlock:process:{}", locks.process_id());
    let set = |value: &[u8]| {
        assert_eq!(server.command(&[b"SET", key.as_bytes(), value]).text(), "OK");
    };
    let process = async || {
        let inspection = answered("inspect", locks.inspect("x")).await.unwrap();
        assert!(inspection.stored.is_some());
        inspection.process
    };
    set(br#"{"host":"h\u001b[2J","pid":7,"program":"p","since":5,"secret":1}"#);
    assert_eq!(process().await.unwrap().to_string(), "p, pid 7 on h\\u{1b}[2J");
    for other in [&b""[..], b"\xff\x00\xfe", b"[[[", b"{\"pid\":7}", &b"[".repeat(60_000)] {
        set(other);
        assert_eq!(process().await, None);
    }
    let sent = || {
        let stats = server.command(&["INFO", "stats"]).text().to_owned();
        let bytes = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).unwrap();
        bytes.parse::<u64>().unwrap()
    };
    set(&b"x".repeat(50_000_000));
    let before = sent();
    assert_eq!(process().await, None);
    assert!(sent() - before < 200_000, "reads are bounded: {} bytes", sent() - before);

    server.command(&["DEL", &key]);
    server.command(&["HSET", &key, "a", "b"]);
    assert_eq!(process().await, None);
    // A card that replaces it is read again.
    let card = ProcessCard::new("host", 7, "shop", lock_core::clock::UtcTime::from_millis(5));
    backend.write_card(locks.process_id(), card.clone(), Duration::from_secs(60)).await.unwrap();
    assert_eq!(process().await, Some(card));
    assert_eq!(backend.read_card(ProcessId::random()).await.unwrap(), None);
}

#[tokio::test]
async fn nodes_of_a_cluster_keep_the_cards() {
    let cluster = RedisCluster::start();
    let other = LockFactory::new(redis(&cluster.url()).await);
    // Some keys are not on the node of the lock.
    for number in 0..4 {
        let locks = LockFactory::new(redis(&cluster.url()).await);
        let name = format!("x:{number}");
        let guard = locks.named(&*name).unwrap().acquire().await.unwrap();
        assert_eq!(card(&other, &name).await.pid, std::process::id());
        guard.release().await.unwrap();
        let key = format!("distlock:process:{}", locks.process_id());
        assert!(locks.shutdown().await.is_clean());
        assert!(cluster.servers().iter().all(|node| !cards(node).contains(&key)));
    }
}
