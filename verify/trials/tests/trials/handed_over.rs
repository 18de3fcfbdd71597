//! Hand-overs between processes whose subscribers are constantly killed. A lost wake-up costs at most one poll
//! interval, and no waiter hangs.

use crate::{
    figure::{Figure, Run, ms},
    stage::{HANGS, factory, lock, on_a_runtime},
};
use lock_core::{Lock, LockOptions};
use lock_testkit::RedisServer;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const WORKERS: usize = 8;
/// A waiter polls when the lease that it saw has ended, and every 5 s.
const LEASE: Duration = Duration::from_secs(2);
const KILL_EVERY: Duration = Duration::from_millis(50);
const SLACK: Duration = Duration::from_millis(100);

pub(crate) fn killed_subscribers(run: &Run) -> Vec<Figure> {
    on_a_runtime(subscribers_are_killed(*run))
}

/// The times between a release and the next grant. The workers belong to two processes and wait for each other.
#[derive(Default)]
struct Gaps {
    released: Mutex<Option<Instant>>,
    worst: Mutex<Duration>,
    done: AtomicU64,
}

async fn subscribers_are_killed(run: Run) -> Vec<Figure> {
    let hand_overs = run.times(1_000, 10_000);
    let server = Arc::new(RedisServer::start());
    let options = LockOptions::new().lease(LEASE);
    let locks = [factory(&server.url(), options).await, factory(&server.url(), options).await];
    let gaps = Arc::new(Gaps::default());
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| tokio::spawn(work(lock(&locks[worker % 2], "x"), gaps.clone(), hand_overs)))
        .collect();
    let kills = {
        let (server, gaps) = (server.clone(), gaps.clone());
        tokio::task::spawn_blocking(move || {
            let (mut raw, mut kills) = (server.raw(), 0);
            while gaps.done.load(Ordering::Relaxed) < hand_overs {
                kills += raw.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).integer();
                std::thread::sleep(KILL_EVERY);
            }
            kills
        })
        .await
        .unwrap()
    };
    for worker in workers {
        tokio::time::timeout(HANGS, worker).await.expect("no hang").unwrap();
    }
    let (done, worst) = (gaps.done.load(Ordering::Relaxed), *gaps.worst.lock().unwrap());
    assert!(kills * 200 > i64::try_from(hand_overs).unwrap(), "only {kills} subscribers were killed");
    run.bound(worst, LEASE + SLACK);
    vec![Figure::new(
        "subscribers killed every 50 ms during hand-overs",
        format!("{done}, {kills} kills"),
        format!("no waiter hangs; extra wait at most a poll interval ({}) + {}", ms(LEASE), ms(SLACK)),
        format!("0 hung, {}", ms(worst)),
    )]
}

async fn work(lock: Lock, gaps: Arc<Gaps>, hand_overs: u64) {
    while gaps.done.load(Ordering::Relaxed) < hand_overs {
        let guard = lock.acquire().await.unwrap();
        let gap = gaps.released.lock().unwrap().take().map(|released| released.elapsed());
        if let Some(gap) = gap {
            let mut worst = gaps.worst.lock().unwrap();
            *worst = gap.max(*worst);
        }
        gaps.done.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(2)).await;
        *gaps.released.lock().unwrap() = Some(Instant::now());
        assert!(guard.release().await.unwrap().was_held());
    }
}
