//! A holder that cannot reach the server for a while: for half of its lease, which the hold survives, or for one and a
//! half leases, which ends it at the known deadline.

use crate::{
    figure::{Figure, Run, ms},
    stage::{HANGS, factory, lock, on_a_runtime},
};
use lock_core::{LockOptions, LostReason};
use lock_testkit::{Direction, RedisServer, Seed, Stream, TcpProxy};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const LEASE: Duration = Duration::from_secs(9);
/// The number of concurrent cases.
const AT_ONCE: usize = 25;
/// The maximum delay of a task that reacts to an event, on a machine with other load.
const LATE: Duration = Duration::from_millis(100);

pub(crate) fn partitions(run: &Run) -> Vec<Figure> {
    let rounds = run.times(1, 4);
    let times = rounds * AT_ONCE;
    let mut latest = Duration::ZERO;
    on_a_runtime(async {
        let server = RedisServer::start();
        for round in 0..rounds {
            let cases: Vec<_> = (0..2 * AT_ONCE)
                .map(|case| {
                    let random = Seed::new(run.seed.get() ^ (round * 1_000 + case) as u64).stream();
                    let (way, name) = (TcpProxy::start(server.address()), format!("x:{round}:{case}"));
                    tokio::spawn(async move {
                        if case % 2 == 0 {
                            survived_cut(&way, &name, random).await;
                            Duration::ZERO
                        } else {
                            fatal_cut(&way, &name, random).await
                        }
                    })
                })
                .collect();
            for case in cases {
                latest = latest.max(case.await.unwrap());
            }
        }
    });
    run.bound(latest, LATE);
    vec![
        Figure::new(
            "holder cut off for half of its lease",
            times,
            "the hold survives",
            format!("{times} survived"),
        ),
        Figure::new(
            "holder cut off for one and a half leases",
            times,
            format!("not held from the deadline on; `lost()` within {}", ms(LATE)),
            format!("{times} lost at the deadline; `lost()` {} later", ms(latest)),
        ),
    ]
}

/// Cuts off the holder: nothing gets through, or connections are closed as well.
fn cut_off(way: &TcpProxy, random: &mut Stream) -> &'static str {
    match random.below(4) {
        0 => {
            way.refuse();
            "refused"
        }
        1 => {
            way.stall(Direction::ToServer);
            "not heard"
        }
        2 => {
            way.stall(Direction::ToClient);
            "not answered"
        }
        _ => {
            way.stall(Direction::Both);
            "cut off"
        }
    }
}

async fn survived_cut(way: &TcpProxy, name: &str, mut random: Stream) {
    let locks = factory(&way.url(), LockOptions::new().lease(LEASE)).await;
    let guard = lock(&locks, name).acquire().await.unwrap();
    tokio::time::sleep(Duration::from_millis(random.below(3_000))).await;
    let (left, how) = (guard.remaining(), cut_off(way, &mut random));
    tokio::time::sleep(LEASE / 2).await;
    way.pass();
    tokio::time::sleep(LEASE).await;
    assert!(guard.is_held(), "{name}: {how} with {left:?} left, renewed in time");
    assert!(guard.release().await.unwrap().was_held(), "{name}");
}

/// Waits for the loss without asking first.
async fn lost_without_asking(
    waiting: JoinHandle<(LostReason, Instant)>,
    deadline: Instant,
    name: &str,
) -> JoinHandle<(LostReason, Instant)> {
    while !waiting.is_finished() {
        assert!(deadline.elapsed() < HANGS, "{name}: no notification");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    waiting
}

/// Returns the time from the deadline to the completion of `lost()`.
async fn fatal_cut(way: &TcpProxy, name: &str, mut random: Stream) -> Duration {
    let locks = factory(&way.url(), LockOptions::new().lease(LEASE)).await;
    let guard = lock(&locks, name).acquire().await.unwrap();
    let lost = guard.lost();
    tokio::time::sleep(Duration::from_millis(random.below(3_000))).await;
    cut_off(way, &mut random);
    let cut = Instant::now();
    // By now, requests under way have arrived, and the deadline is final.
    tokio::time::sleep(LEASE / 10).await;
    let (before, left) = (Instant::now(), guard.remaining());
    // The deadline is between these two, since this thread may have been suspended between them.
    let (earliest, deadline) = (before + left, Instant::now() + left);
    assert!(earliest <= cut + LEASE, "{name}: the deadline is at most one lease after the cut");
    let waiting = tokio::spawn(async move { (lost.await, Instant::now()) });
    // A caller that asks also notifies those that wait. In half of the cases nobody asks.
    let looks = random.chance(0.5);
    while Instant::now() < deadline {
        assert!(!looks || guard.is_held() || Instant::now() >= earliest, "{name}: held until the deadline");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let waiting = if looks { waiting } else { lost_without_asking(waiting, deadline, name).await };
    assert!(!guard.is_held(), "{name}: not held after the deadline");
    let (reason, at) = waiting.await.unwrap();
    assert_eq!(reason, LostReason::Expired, "{name}");
    tokio::time::sleep((LEASE * 3 / 2).saturating_sub(cut.elapsed())).await;
    way.pass();
    assert!(!guard.is_held(), "{name}: a lost hold stays lost");
    at.saturating_duration_since(deadline)
}
