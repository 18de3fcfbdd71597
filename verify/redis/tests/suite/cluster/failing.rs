//! A master that dies or is suspended: its slots return with its replica, and the other slots are not affected.

use super::super::support::{answered, factory, until, until_renewed};
use lock_core::LockErrorKind;
use lock_testkit::{RedisCluster, RedisServer};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(30);

/// Returns one name per master.
fn names(cluster: &RedisCluster) -> Vec<String> {
    let at = |server: &RedisServer| {
        let mut names = (0..).map(|number| format!("name:{number}"));
        names.find(|name| cluster.server_of(name).port() == server.port()).unwrap()
    };
    cluster.servers()[..3].iter().map(at).collect()
}

async fn fails(end: fn(&RedisServer)) {
    let cluster = RedisCluster::start();
    let names = names(&cluster);
    let locks = factory(&cluster.url(), LEASE).await;
    let others = factory(&cluster.url(), LEASE).await;
    let guard = locks.named(names[0].as_str()).unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(others.named(names[0].as_str()).unwrap().acquire());
    let replica = &cluster.servers()[3];
    until("the lease arrived at the replica", async || replica.keys().contains(&names[0])).await;
    end(&cluster.servers()[0]);
    let begin = Instant::now();
    let (mut worst, mut cycles) = (Duration::ZERO, 0u32);
    let lost = format!("{{{}}}:again", names[0]);
    let probe = async {
        until("the slots of the master are served again", async || {
            match locks.named(lost.as_str()).unwrap().try_acquire().await {
                Ok(Some(guard)) => guard.release().await.is_ok(),
                Ok(None) => false,
                Err(error) => {
                    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error:?}");
                    false
                }
            }
        })
        .await;
        begin.elapsed()
    };
    let mut probe = std::pin::pin!(probe);
    let outage = loop {
        let one = Instant::now();
        let name = names[1 + cycles as usize % 2].as_str();
        let cycle = async {
            let guard = locks.named(name).unwrap().acquire().await.expect("another slot is served");
            guard.release().await.expect("another slot is served");
        };
        tokio::select! {
            outage = &mut probe => break outage,
            () = cycle => {}
        }
        worst = worst.max(one.elapsed());
        cycles += 1;
    };
    eprintln!(
        "cluster: outage of the slots {outage:?}; of the others, {cycles} cycles, the longest {worst:?}"
    );
    assert!(cycles > 50 && worst < outage / 2, "{cycles} cycles, {worst:?} of {outage:?}");
    until_renewed(replica, &names[0], LEASE).await;
    assert!(guard.is_held());
    assert!(guard.release().await.unwrap().was_held());
    answered("the waiter", waiting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_master_only_stops_its_slots() {
    fails(RedisServer::stop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_master_only_stops_its_slots() {
    fails(RedisServer::pause).await;
}
