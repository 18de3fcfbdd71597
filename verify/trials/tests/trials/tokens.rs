//! Grants on a server that loses its data in every possible way: each token of a name exceeds the previous one.

use crate::{
    figure::{Figure, Run},
    stage::{blocking, factory, lock, on_a_runtime, until},
};
use lock_core::{Lock, LockOptions};
use lock_testkit::{Direction, RedisServer, TcpProxy};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

const NAMES: usize = 8;
const LEASE: Duration = Duration::from_secs(2);

/// The ways in which the server loses data, evenly distributed over the grants.
#[derive(Debug, Clone, Copy)]
enum Disaster {
    /// It restarts without its data.
    Empty,
    /// It restarts from a dump taken at the previous disaster.
    OldDump,
    Flush,
    /// A replica that missed the last writes replaces it.
    Promotion,
}

pub(crate) fn tokens_over_lost_data(run: &Run) -> Vec<Figure> {
    use Disaster::{Empty, Flush, OldDump, Promotion};
    let rounds = run.times(1, 5);
    let disasters = [Empty, OldDump, Flush, Empty, OldDump, Promotion].repeat(rounds);
    on_a_runtime(data_is_lost(run.times(50_000, 1_000_000), disasters))
}

async fn data_is_lost(total: u64, disasters: Vec<Disaster>) -> Vec<Figure> {
    let mut server = Arc::new(RedisServer::start());
    // Clients use a proxy that can be redirected to another server.
    let front = TcpProxy::start(server.address());
    let options = LockOptions::new().lease(LEASE).outage_budget(Duration::from_secs(60));
    let clients = [factory(&front.url(), options).await, factory(&front.url(), options).await];
    let grants = Grants::begin((0..NAMES).map(|name| lock(&clients[name % 2], &format!("x:{name}"))));
    grants.reach(100).await;
    let mut old = blocking(&server, RedisServer::dump).await;
    for (number, disaster) in disasters.iter().enumerate() {
        grants.reach(total * (number as u64 + 1) / (disasters.len() as u64 + 1)).await;
        let dump = blocking(&server, RedisServer::dump).await;
        match disaster {
            Disaster::Empty => blocking(&server, RedisServer::restart_empty).await,
            Disaster::OldDump => {
                let old = old.clone();
                blocking(&server, move |server| server.restart_from(&old)).await;
            }
            Disaster::Flush => drop(blocking(&server, |server| server.command(&["FLUSHALL"])).await),
            Disaster::Promotion => server = promote(&server, &front, &grants).await,
        }
        old = dump;
        // Scripts are flushed as well.
        blocking(&server, |server| server.command(&["SCRIPT", "FLUSH"])).await;
    }
    grants.reach(total).await;
    let count = grants.end().await;
    let of = |kind: fn(&&Disaster) -> bool| disasters.iter().filter(kind).count();
    let restarts = of(|disaster| matches!(disaster, Disaster::Empty | Disaster::OldDump));
    let flushes = of(|disaster| matches!(disaster, Disaster::Flush));
    let promotions = of(|disaster| matches!(disaster, Disaster::Promotion));
    vec![Figure::new(
        "restarts (empty, from an old dump) / `FLUSHALL` / promotions that lost writes",
        format!("{count} over {restarts} / {flushes} / {promotions}"),
        "every token of a name greater than the one before",
        "0 repeated, 0 smaller",
    )]
}

/// A replica is cut off, misses grants, and is promoted. Clients are redirected to it.
async fn promote(master: &Arc<RedisServer>, front: &TcpProxy, grants: &Grants) -> Arc<RedisServer> {
    let way = TcpProxy::start(master.address());
    let replica = Arc::new(RedisServer::start());
    replica.command(&["REPLICAOF", "127.0.0.1", &way.port().to_string()]);
    until("the replica follows", async || {
        let up = replica.command(&["INFO", "replication"]).text().contains("master_link_status:up");
        up && !replica.keys().is_empty()
    })
    .await;
    way.stall(Direction::Both);
    grants.reach(grants.count() + 200).await;
    let counters = |server: &RedisServer| -> u64 {
        let counter = |name| server.command(&["GET", &format!("redisson_lock_token:{{x:{name}}}")]);
        (0..NAMES).map(|name| counter(name).text().parse().unwrap_or(0_u64)).sum()
    };
    let (missed, known) = (counters(master), counters(&replica));
    assert!(known < missed, "the replica missed the last grants");
    master.stop();
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    front.retarget(replica.address());
    front.cut();
    replica
}

/// Workers that each take one lock repeatedly.
struct Grants {
    over: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    workers: Vec<JoinHandle<()>>,
}

impl Grants {
    fn begin(locks: impl Iterator<Item = Lock>) -> Self {
        let (over, count): (Arc<AtomicBool>, Arc<AtomicU64>) = Default::default();
        let workers =
            locks.map(|lock| tokio::spawn(take_repeatedly(lock, over.clone(), count.clone()))).collect();
        Self { over, count, workers }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    async fn reach(&self, count: u64) {
        while self.count() < count {
            assert!(!self.workers.iter().any(JoinHandle::is_finished), "the workers continue");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        for worker in self.workers {
            worker.await.unwrap();
        }
        self.count.load(Ordering::Relaxed)
    }
}

async fn take_repeatedly(lock: Lock, over: Arc<AtomicBool>, count: Arc<AtomicU64>) {
    let mut last = 0;
    while !over.load(Ordering::Relaxed) {
        let guard = lock.acquire().await.unwrap();
        let token = guard.fencing_token().get();
        assert!(token > last, "{token} after {last}");
        last = token;
        count.fetch_add(1, Ordering::Relaxed);
        // Its outcome does not matter here: data loss on the server is not an error of the release.
        let _ = guard.release().await;
    }
}
