//! Nodes that stop answering cost little, and take part again soon after they return.

use super::{Fleet, node::Mode, pass, take};
use lock_core::LockFactory;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval between two cycles.
const INTERVAL: Duration = Duration::from_millis(10);

/// Acquires and releases for this many seconds. Returns the number of cycles.
async fn cycle(process: &LockFactory, seconds: u64) -> usize {
    let (begun, mut cycles) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        assert!(take(process).await.release().await.unwrap().was_held());
        cycles += 1;
        sleep(INTERVAL).await;
    }
    cycles
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Work for each cycle would otherwise last until the lease of that cycle has ended.
#[tokio::test(start_paused = true)]
async fn silent_node_gets_few_requests_and_leaves_little_work() {
    let fleet = Fleet::of(3);
    let process = fleet.process();
    cycle(&process, 1).await;
    let before = tasks();
    fleet.set(&[2], Mode::Stopped);
    cycle(&process, 1).await;
    let (asked, left) = (fleet.nodes[2].proposals(), tasks());
    let cycles = cycle(&process, 20).await;
    let asked = fleet.nodes[2].proposals() - asked;
    assert!(asked <= 40, "{asked} proposals in {cycles} cycles");
    assert!(tasks() <= left + 2 * asked, "{before} tasks before, {left} after a second, now {}", tasks());
}

#[tokio::test(start_paused = true)]
async fn returning_node_takes_part_within_a_second() {
    let fleet = Fleet::of(3);
    let process = fleet.process();
    cycle(&process, 1).await;
    fleet.set(&[2], Mode::Stopped);
    cycle(&process, 20).await;
    fleet.set(&[2], Mode::Up);
    cycle(&process, 1).await;
    sleep(INTERVAL).await;
    let guard = take(&process).await;
    assert_eq!(fleet.held(), [0, 1, 2]);
    guard.release().await.unwrap();
    pass(2).await;
    assert_eq!(fleet.held(), [] as [usize; 0]);
}

/// Nothing but the release itself asks the node here.
#[tokio::test(start_paused = true)]
async fn lease_on_a_silent_node_is_released_when_it_returns() {
    let fleet = Fleet::of(3);
    let process = fleet.process();
    let guard = process.named("y").unwrap().acquire().await.unwrap();
    fleet.set(&[2], Mode::Stopped);
    cycle(&process, 1).await;
    guard.release().await.unwrap();
    assert_eq!(fleet.held(), [2]);
    pass(3).await;
    fleet.set(&[2], Mode::Up);
    pass(4).await;
    assert_eq!(fleet.held(), [] as [usize; 0], "long before the lease ends");
}

#[tokio::test(start_paused = true)]
async fn slow_node_keeps_its_votes() {
    let fleet = Fleet::of(3);
    let process = fleet.process();
    fleet.set(&[2], Mode::Slow(Duration::from_secs(1)));
    cycle(&process, 10).await;
    assert_eq!(fleet.nodes[2].proposals(), fleet.nodes[0].proposals());
}

/// A round without a majority of answering nodes leaves out nobody: any of the silent nodes may have returned.
#[tokio::test(start_paused = true)]
async fn silent_majority_is_contacted_every_time() {
    let fleet = Fleet::of(3);
    let process = fleet.process();
    cycle(&process, 1).await;
    fleet.set(&[1, 2], Mode::Stopped);
    for _ in 0..3 {
        assert!(process.named("x").unwrap().try_acquire().await.is_err());
    }
    fleet.set(&[2], Mode::Up);
    let returned = Instant::now();
    // The last lease of the other name is still being released.
    let guard = process.named("y").unwrap().try_acquire().await.unwrap();
    assert!(guard.is_some_and(|guard| guard.is_held()));
    assert_eq!(returned.elapsed(), Duration::ZERO, "the first attempt after its return asks it");
}
