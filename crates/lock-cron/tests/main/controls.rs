//! Controls: a command to one node applies on the others, and after a restart of all nodes.

use crate::fleet::{Fleet, Running, secs};
use lock_cron::{CronErrorKind, Overlap, Schedule};
use lock_ledger::RunOutcome;
use lock_testkit::{Op, Phase};
use std::time::Duration;
use tokio::time::sleep;

async fn two(fleet: &Fleet) -> (Running, Running) {
    let leader = fleet.simple("a", "* * * * * *", secs(0)).await;
    sleep(Duration::from_millis(250)).await;
    let follower = fleet.simple("b", "* * * * * *", secs(0)).await;
    sleep(Duration::from_millis(250)).await;
    assert!(leader.cron.is_leading() && !follower.cron.is_leading());
    (leader, follower)
}

#[tokio::test(start_paused = true)]
async fn pause_applies_at_once_and_survives_a_restart_of_all() {
    let fleet = Fleet::new();
    let (leader, follower) = two(&fleet).await;
    sleep(secs(5)).await;
    follower.cron.pause("job").await.unwrap();
    let before = fleet.log.starts().len();
    sleep(secs(5)).await;
    assert_eq!(fleet.log.starts().len(), before, "no further start");
    assert!(leader.cron.list().await.unwrap()[0].paused);
    leader.stop().await;
    follower.stop().await;
    let (leader, follower) = two(&fleet).await;
    sleep(secs(5)).await;
    assert_eq!(fleet.log.starts().len(), before);
    follower.cron.resume("job").await.unwrap();
    sleep(secs(5)).await;
    let since = fleet.log.starts().len() - before;
    assert!((3..=5).contains(&since), "within 2 s, without a catch-up: {since}");
    assert!(!leader.cron.list().await.unwrap()[0].paused);
    fleet.log.assert_each_once();
}

#[tokio::test(start_paused = true)]
async fn replaced_schedule_survives_a_restart_of_all() {
    let fleet = Fleet::new();
    let (leader, follower) = two(&fleet).await;
    sleep(secs(3)).await;
    follower.cron.replace("job", "*/10 * * * * *").await.unwrap();
    sleep(Duration::from_millis(6_600)).await;
    assert_eq!(fleet.log.instants()[3..], [10], "{:?}", fleet.log.instants());
    for node in [&leader, &follower] {
        let view = node.cron.list().await.unwrap().remove(0);
        assert!(view.replaced && view.schedule == Schedule::cron("*/10 * * * * *").unwrap(), "{view:?}");
    }
    assert_eq!(
        leader.cron.next_runs("job", 5).await.unwrap(),
        follower.cron.next_runs("job", 5).await.unwrap()
    );
    leader.stop().await;
    follower.stop().await;
    let (leader, follower) = two(&fleet).await;
    sleep(secs(20)).await;
    assert_eq!(fleet.log.instants()[3..], [10, 20, 30]);
    assert_eq!(
        leader.cron.next_runs("job", 5).await.unwrap(),
        follower.cron.next_runs("job", 5).await.unwrap()
    );
    leader.cron.restore("job").await.unwrap();
    sleep(secs(3)).await;
    assert!(fleet.log.instants().len() >= 8, "{:?}", fleet.log.instants());
    fleet.log.assert_each_once();
}

#[tokio::test(start_paused = true)]
async fn invalid_schedule_keeps_the_old_one() {
    let fleet = Fleet::new();
    let (leader, _follower) = two(&fleet).await;
    let error = leader.cron.replace("job", "* * * *").await.unwrap_err();
    assert_eq!(error.kind(), CronErrorKind::InvalidSchedule);
    sleep(secs(3)).await;
    assert_eq!(fleet.log.instants(), [1, 2, 3]);
    assert!(!leader.cron.list().await.unwrap()[0].replaced);
}

#[tokio::test(start_paused = true)]
async fn trigger_runs_a_job_once_even_if_paused() {
    let fleet = Fleet::new();
    let (_leader, follower) = two(&fleet).await;
    follower.cron.pause("job").await.unwrap();
    sleep(secs(2)).await;
    let before = fleet.log.starts().len();
    let id = follower.cron.trigger("job").await.unwrap();
    sleep(secs(2)).await;
    let starts = fleet.log.starts();
    assert_eq!((starts.len(), starts[before].run), (before + 1, id));
    sleep(secs(30)).await;
    assert_eq!(fleet.log.starts().len(), before + 1);
    let history = follower.history().await;
    assert_eq!(
        history.last().map(|attempt| (attempt.run, attempt.outcome)),
        Some((id, RunOutcome::Succeeded))
    );
}

#[tokio::test(start_paused = true)]
async fn trigger_without_a_leader_waits_for_one() {
    let fleet = Fleet::new();
    let leader = fleet.simple("a", "@yearly", secs(0)).await;
    sleep(secs(1)).await;
    let follower = fleet.simple("b", "@yearly", secs(0)).await;
    sleep(secs(1)).await;
    leader.kill();
    let id = follower.cron.trigger("job").await.unwrap();
    sleep(secs(12)).await;
    assert_eq!(fleet.log.starts().iter().map(|start| start.run).collect::<Vec<_>>(), [id]);
}

#[tokio::test(start_paused = true)]
async fn commands_to_an_unknown_job_are_refused() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "@daily", secs(0)).await;
    for error in [
        running.cron.pause("jop").await.unwrap_err(),
        running.cron.trigger("jop").await.unwrap_err(),
        running.cron.history("jop", 1).await.unwrap_err(),
        running.cron.next_runs("jop", 1).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), CronErrorKind::UnknownJob);
        assert!(error.to_string().contains("jop"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn trigger_read_again_while_it_runs_is_harmless() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    node.job("job", "@yearly", secs(100)).overlap(Overlap::Allow { max: 9 }).register().unwrap();
    let running = node.start();
    sleep(Duration::from_millis(1_500)).await;
    let claim = running.faulty.gate(Op::Claim, Phase::Before);
    let first = running.cron.trigger("job").await.unwrap();
    claim.reached().await;
    sleep(Duration::from_millis(10)).await;
    // Read before the first trigger is claimed, delivered afterwards.
    let read = running.faulty.gate(Op::Heartbeat, Phase::After);
    let second = running.cron.trigger("job").await.unwrap();
    read.reached().await;
    claim.open();
    sleep(Duration::from_millis(100)).await;
    read.open();
    sleep(secs(2)).await;
    let starts: Vec<_> = fleet.log.starts().iter().map(|start| start.run).collect();
    assert_eq!(starts, [first, second]);
}
