//! The instants of a schedule as a stream, in virtual time.

use crate::fleet::{second, secs};
use futures_util::StreamExt;
use lock_core::clock::TestClock;
use lock_cron::{Schedule, Ticks, UtcTime};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

fn ticks(schedule: &str) -> (Arc<TestClock>, Ticks) {
    let clock = Arc::new(TestClock::new());
    let schedule = Schedule::cron(schedule).expect("valid schedule");
    (clock.clone(), schedule.ticks_with_clock(clock))
}

/// Returns the seconds since the beginning of the clock.
fn at(tick: Option<UtcTime>) -> Option<u64> {
    tick.map(second)
}

fn now(clock: &TestClock) -> u64 {
    use lock_core::clock::Clock;
    second(clock.wall())
}

#[tokio::test(start_paused = true)]
async fn ticks_come_at_their_instants() {
    let (clock, mut ticks) = ticks("* * * * *");
    for minute in 1..=3 {
        assert_eq!(at(ticks.next().await), Some(minute * 60));
        assert_eq!(now(&clock), minute * 60);
    }
}

#[tokio::test(start_paused = true)]
async fn one_shot_schedule_ends_the_stream() {
    let (_, ticks) = ticks("@at 2026-01-01T00:01:00Z");
    let all: Vec<_> = ticks.map(|tick| at(Some(tick))).collect().await;
    assert_eq!(all, [Some(60)]);
}

#[tokio::test(start_paused = true)]
async fn slow_body_skips_to_the_latest_tick() {
    let (clock, mut ticks) = ticks("* * * * *");
    assert_eq!(at(ticks.next().await), Some(60));
    sleep(secs(150)).await;
    assert_eq!((at(ticks.next().await), now(&clock)), (Some(180), 210), "at once");
    assert_eq!((at(ticks.next().await), now(&clock)), (Some(240), 240), "on time again");
}

#[tokio::test(start_paused = true)]
async fn body_shorter_than_the_interval_misses_nothing() {
    let (_, mut ticks) = ticks("* * * * *");
    for minute in 1..=3 {
        assert_eq!(at(ticks.next().await), Some(minute * 60));
        sleep(secs(59)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn forward_clock_step_is_noticed_within_a_second() {
    let (clock, mut ticks) = ticks("0 2 * * *");
    let waiting = timeout(secs(5), ticks.next()).await;
    assert!(waiting.is_err(), "two hours are left");
    // A week, as after a suspension of the machine.
    clock.step_wall(7 * 86_400 * 1_000_000);
    let tick = timeout(secs(1), ticks.next()).await.expect("within a second");
    assert_eq!(at(tick), Some(6 * 86_400 + 2 * 3_600), "the latest tick");
}

#[tokio::test(start_paused = true)]
async fn backward_clock_step_repeats_no_tick() {
    let (clock, mut ticks) = ticks("* * * * *");
    assert_eq!(at(ticks.next().await), Some(60));
    clock.step_wall(-120 * 1_000_000);
    assert!(timeout(secs(170), ticks.next()).await.is_err(), "the clock shows less than two minutes");
    assert_eq!(at(ticks.next().await), Some(120));
}

#[tokio::test(start_paused = true)]
async fn dropped_next_loses_no_tick() {
    let (_, mut ticks) = ticks("* * * * *");
    let tick = loop {
        if let Ok(tick) = timeout(Duration::from_millis(700), ticks.next()).await {
            break tick;
        }
    };
    assert_eq!(at(tick), Some(60));
}
