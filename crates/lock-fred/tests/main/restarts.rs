//! Servers that lose their data, their scripts, or their last write: tokens go on growing, and holds are reported
//! as lost.

use crate::support::{factory, name, redis, until};
use lock_core::{LockFactory, LockOptions, LostReason};
use lock_testkit::{RedisServer, TcpProxy};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

const LEASE: Duration = Duration::from_secs(2);

/// Grants of one name, each token greater than the one before, while this goes on.
struct Grants {
    over: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    last: Arc<AtomicU64>,
    worker: tokio::task::JoinHandle<()>,
}

impl Grants {
    fn begin(locks: LockFactory, lock: &'static str) -> Self {
        let (over, count, last) = (Arc::new(AtomicBool::new(false)), Arc::default(), Arc::default());
        let worker = tokio::spawn(take_on_and_on(
            locks,
            lock,
            Arc::clone(&over),
            Arc::clone(&count),
            Arc::clone(&last),
        ));
        Self { over, count, last, worker }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    async fn until(&self, count: u64) {
        while self.count() < count {
            assert!(!self.worker.is_finished(), "the worker goes on");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.worker.await.unwrap();
        self.last.load(Ordering::Relaxed)
    }
}

async fn take_on_and_on(
    locks: LockFactory,
    lock: &'static str,
    over: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    last: Arc<AtomicU64>,
) {
    let lock = locks.named(lock).unwrap();
    while !over.load(Ordering::Relaxed) {
        let guard = lock.acquire().await.unwrap();
        let token = guard.fencing_token().get();
        let before = last.swap(token, Ordering::Relaxed);
        assert!(token > before, "{token} after {before}");
        count.fetch_add(1, Ordering::Relaxed);
        // What became of the hold is told; a server that lost it is no error of the release.
        let _ = guard.release().await;
    }
}

/// A hundred thousand grants over everything that loses data on one server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_over_every_loss_of_data() {
    const GRANTS: u64 = 100_000;
    let server = Arc::new(RedisServer::start());
    let options = LockOptions::new().lease(LEASE).outage_budget(Duration::from_secs(60));
    let locks = LockFactory::builder(redis(&server.url()).await).options(options).build().unwrap();
    let grants = Grants::begin(locks, "x");
    grants.until(100).await;
    let old = blocking(&server, RedisServer::dump).await;

    grants.until(GRANTS / 10).await;
    blocking(&server, RedisServer::restart_empty).await;
    grants.until(GRANTS * 3 / 10).await;
    blocking(&server, move |server| server.restart_from(&old)).await;
    grants.until(GRANTS * 5 / 10).await;
    for round in 0..20 {
        grants.until(GRANTS * 5 / 10 + round * GRANTS / 100).await;
        blocking(&server, |server| server.command(&["FLUSHALL"])).await;
    }
    // And with the scripts forgotten, every 10 ms.
    let flusher = {
        let (server, over) = (server.clone(), grants.over.clone());
        tokio::task::spawn_blocking(move || {
            let mut raw = server.raw();
            while !over.load(Ordering::Relaxed) {
                raw.command(&["SCRIPT", "FLUSH"]);
                std::thread::sleep(Duration::from_millis(10));
            }
        })
    };
    grants.until(GRANTS).await;
    let count = grants.count();
    let last = grants.end().await;
    flusher.await.unwrap();
    eprintln!("{count} grants, the last token {last}, each greater than the one before");
}

async fn blocking<T: Send + 'static>(
    server: &Arc<RedisServer>,
    work: impl FnOnce(&RedisServer) -> T + Send + 'static,
) -> T {
    let server = server.clone();
    tokio::task::spawn_blocking(move || work(&server)).await.unwrap()
}

/// A replica is cut off, misses the last grants, and is promoted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_over_a_promotion_that_lost_the_last_writes() {
    for round in 0..3 {
        let master = RedisServer::start();
        // The replica follows through a proxy that can be stalled; clients go through another that can be turned.
        let way = TcpProxy::start(master.address());
        let replica = RedisServer::start();
        replica.command(&["REPLICAOF", "127.0.0.1", &way.port().to_string()]);
        until("the replica follows", async || {
            replica.command(&["INFO", "replication"]).text().contains("master_link_status:up")
        })
        .await;
        let front = TcpProxy::start(master.address());
        let options = LockOptions::new().lease(LEASE).outage_budget(Duration::from_secs(60));
        let locks = LockFactory::builder(redis(&front.url()).await).options(options).build().unwrap();

        let grants = Grants::begin(locks, "x");
        grants.until(50).await;
        until("the counter arrived at the replica", async || !replica.keys().is_empty()).await;
        way.stall(lock_testkit::Direction::Both);
        let before = grants.count();
        grants.until(before + 200).await;
        let missed = master.command(&["GET", "redisson_lock_token:{x}"]).text().to_owned();
        let known = replica.command(&["GET", "redisson_lock_token:{x}"]).text().to_owned();
        assert!(known < missed, "the replica missed the last grants, round {round}");
        master.stop();
        replica.command(&["REPLICAOF", "NO", "ONE"]);
        front.retarget(replica.address());
        front.cut();
        let before = grants.count();
        grants.until(before + 200).await;
        let last = grants.end().await;
        assert!(last > missed.parse().unwrap(), "{last} is greater than the lost {missed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_whose_server_lost_it_is_reported_as_lost() {
    for empties in [true, false] {
        let server = RedisServer::start();
        let locks = factory(&server.url(), LEASE).await;
        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        match empties {
            true => server.restart_empty(),
            false => drop(server.command(&["FLUSHALL"])),
        }
        let lost =
            tokio::time::timeout(LEASE, guard.lost()).await.expect("before the lease would have ended");
        assert_eq!(lost, LostReason::Gone);
        assert!(!guard.is_held());
        let after = locks.named("x").unwrap().acquire().await.unwrap();
        assert!(after.fencing_token() > guard.fencing_token());
        assert!(!guard.release().await.unwrap().was_held());
        assert!(after.is_held(), "a late release does not touch it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_scripts_are_sent_again() {
    let server = RedisServer::start();
    let locks = factory(&server.url(), LEASE).await;
    for _ in 0..20 {
        server.command(&["SCRIPT", "FLUSH"]);
        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        server.command(&["SCRIPT", "FLUSH"]);
        let inner = guard.reenter().await.unwrap();
        server.command(&["SCRIPT", "FLUSH"]);
        assert!(locks.inspect(&name("x")).await.unwrap().stored.is_some());
        server.command(&["SCRIPT", "FLUSH"]);
        inner.release().await.unwrap();
        assert!(guard.release().await.unwrap().was_held());
    }
}
