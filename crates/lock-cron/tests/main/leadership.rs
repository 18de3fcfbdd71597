//! Leaders: their election, death and resignation, and the absence of conflicts.

use crate::fleet::{Fleet, secs};
use lock_ledger::RunOutcome;
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn one_of_five_leads_and_each_instant_is_started_once() {
    let fleet = Fleet::new();
    let mut nodes = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        nodes.push(fleet.simple(name, "* * * * * *", secs(0)).await);
    }
    sleep(Duration::from_millis(600_500)).await;
    assert_eq!(nodes.iter().filter(|node| node.cron.is_leading()).count(), 1);
    assert_eq!(fleet.log.instants(), (1..=600).collect::<Vec<_>>());
    fleet.log.assert_each_once();
    assert_eq!(fleet.log.leaders(), 1, "no change of leader");
    let late =
        fleet.log.starts().iter().map(|start| start.at - start.run.scheduled().unwrap().as_millis()).max();
    assert!(late < Some(50), "{late:?} ms late");
}

#[tokio::test(start_paused = true)]
async fn dead_leader_is_replaced_within_its_lease_and_a_second() {
    let fleet = Fleet::new();
    let leader = fleet.simple("a", "* * * * * *", secs(0)).await;
    sleep(secs(1)).await;
    let _follower = fleet.simple("b", "* * * * * *", secs(0)).await;
    sleep(Duration::from_millis(20_500)).await;
    assert!(leader.cron.is_leading());
    leader.kill();
    sleep(secs(30)).await;
    let instants = fleet.log.instants();
    let gap = instants.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(gap <= Some(11), "{gap:?} s without a run: {instants:?}");
    assert_eq!(*instants.last().unwrap(), 51, "the runs continue");
    fleet.log.assert_each_once();
}

#[tokio::test(start_paused = true)]
async fn resigned_leader_is_replaced_within_a_second() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    node.job("job", "*/5 * * * * *", secs(8))
        .overlap(lock_cron::Overlap::Allow { max: 9 })
        .register()
        .unwrap();
    let leader = node.start();
    sleep(Duration::from_millis(500)).await;
    let node = fleet.node("b");
    node.job("job", "*/5 * * * * *", secs(8))
        .overlap(lock_cron::Overlap::Allow { max: 9 })
        .register()
        .unwrap();
    let follower = node.start();
    sleep(secs(9)).await;
    let leaving = tokio::spawn(leader.stop());
    sleep(secs(1)).await;
    assert!(follower.cron.is_leading());
    assert_eq!(
        fleet.log.instants(),
        [5, 10],
        "the instant at 10 s is on time, the one at 5 s is not started again"
    );
    sleep(secs(10)).await;
    leaving.await.unwrap();
    assert_eq!(fleet.log.ended(RunOutcome::Succeeded), 2);
    assert_eq!(fleet.log.ended(RunOutcome::Cancelled), 0);
    fleet.log.assert_each_once();
}

#[tokio::test(start_paused = true)]
async fn bodies_beyond_the_shutdown_grace_are_cancelled() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * *", secs(3600)).await;
    sleep(secs(61)).await;
    let begin = tokio::time::Instant::now();
    let cron = running.cron.clone();
    running.stop().await;
    let took = begin.elapsed();
    assert!(took >= secs(20) && took < secs(22), "{took:?}");
    let history = cron.history("job", 10).await.unwrap();
    assert_eq!((history[0].outcome, &*history[0].detail), (RunOutcome::Cancelled, "the scheduler shut down"));
    assert_eq!(fleet.memory.held(), [], "no open run is left");
}

#[tokio::test(start_paused = true)]
async fn shutdown_of_a_candidate_ends_at_once() {
    let fleet = Fleet::new();
    let _leader = fleet.simple("a", "* * * * *", secs(0)).await;
    sleep(secs(1)).await;
    let follower = fleet.simple("b", "* * * * *", secs(0)).await;
    sleep(secs(1)).await;
    tokio::time::timeout(secs(1), follower.stop()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unowned_job_is_reported_once_by_each_leader() {
    let fleet = Fleet::new();
    let _leader = fleet.simple("a", "* * * * *", secs(0)).await;
    let before = fleet.node("b");
    before.job("triggered", "@yearly", secs(0)).register().unwrap();
    before.cron.trigger("triggered").await.unwrap();
    let node = fleet.node("c");
    node.job("died", "1 0 1 1 *", secs(3600)).register().unwrap();
    let died = node.start();
    sleep(secs(61)).await;
    assert_eq!((fleet.log.starts().len(), fleet.log.unowned()), (2, vec![]));
    died.kill();
    sleep(secs(600)).await;
    let mut unowned = fleet.log.unowned();
    unowned.sort();
    assert_eq!(unowned, ["died", "triggered"]);
}

#[tokio::test(start_paused = true)]
async fn job_of_another_leader_is_not_unowned() {
    let fleet = Fleet::new();
    let _leader = fleet.simple("a", "* * * * *", secs(0)).await;
    let node = fleet.node("b");
    let job = node.job("own", "1 0 1 1 *", secs(200)).overlap(lock_cron::Overlap::QueueOne);
    job.register().unwrap();
    let other = node.start();
    sleep(secs(70)).await;
    let id = other.cron.trigger("own").await.unwrap();
    sleep(secs(400)).await;
    assert!(fleet.log.starts().iter().any(|start| start.run == id), "the trigger waited for the run to end");
    assert_eq!(fleet.log.unowned(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn unanswered_claim_does_not_delay_the_shutdown() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * *", secs(0)).await;
    sleep(secs(59)).await;
    running.faulty.always(lock_testkit::Op::Claim, lock_testkit::Fault::Hang);
    sleep(secs(2)).await;
    tokio::time::timeout(secs(65), running.stop()).await.expect("ended within the grace");
    assert_eq!(fleet.memory.held(), [], "no open run is left");
}

#[tokio::test(start_paused = true)]
async fn unanswered_retry_does_not_delay_the_shutdown() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let job =
        node.cron.job("job", lock_cron::Schedule::cron("* * * * *").unwrap(), |_| async { Err("no".into()) });
    job.retries(lock_cron::Retries::times(1)).register().unwrap();
    let running = node.start();
    sleep(Duration::from_millis(60_500)).await;
    running.faulty.always(lock_testkit::Op::Claim, lock_testkit::Fault::Hang);
    sleep(secs(2)).await;
    tokio::time::timeout(secs(65), running.stop()).await.expect("ended within the grace");
    assert_eq!(fleet.memory.held(), [], "no open run is left");
}
