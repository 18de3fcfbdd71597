//! Cancelled runs: a command to any node ends them for good, whichever node runs them.

use crate::fleet::{Fleet, Running, secs};
use lock_cron::{OnOrphan, Overlap, Retries, RunOutcome, Schedule};
use lock_testkit::{Fault, Op};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep};

async fn outcomes(node: &Running) -> Vec<RunOutcome> {
    node.history().await.into_iter().map(|attempt| attempt.outcome).collect()
}

async fn is_open(node: &Running) -> bool {
    !node.cron.list().await.expect("healthy store")[0].open.is_empty()
}

#[tokio::test(start_paused = true)]
async fn run_on_another_node_ends_within_two_seconds() {
    let fleet = Fleet::new();
    let nodes = ["a", "b"].map(|name| {
        let node = fleet.node(name);
        let job = node.job("job", "@yearly", secs(600)).retries(Retries::times(3));
        job.on_orphan(OnOrphan::Retry { max: 3 }).register().expect("valid job");
        node.start()
    });
    sleep(secs(2)).await;
    let [leader, follower] = if nodes[0].cron.is_leading() { [0, 1] } else { [1, 0] };
    nodes[follower].cron.trigger("job").await.expect("healthy store");
    sleep(secs(2)).await;
    assert!(nodes[leader].cron.cancel("job").await.expect("healthy store"));
    let begin = Instant::now();
    while is_open(&nodes[follower]).await {
        sleep(Duration::from_millis(50)).await;
    }
    assert!(begin.elapsed() < secs(2), "{:?}", begin.elapsed());
    sleep(secs(300)).await;
    assert_eq!(outcomes(&nodes[leader]).await, [RunOutcome::Cancelled], "not run again");
    assert_eq!(fleet.log.starts().len(), 1);
    assert!(!nodes[leader].cron.cancel("job").await.expect("healthy store"), "nothing is open");
}

#[tokio::test(start_paused = true)]
async fn only_the_named_run_ends() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let job = node.job("job", "@yearly", secs(60)).overlap(Overlap::Allow { max: 2 });
    job.register().expect("valid job");
    let node = node.start();
    sleep(secs(1)).await;
    let first = node.cron.trigger("job").await.expect("healthy store");
    sleep(secs(2)).await;
    let second = node.cron.trigger("job").await.expect("healthy store");
    sleep(secs(2)).await;
    assert!(node.cron.cancel_run("job", first).await.expect("healthy store"));
    sleep(secs(100)).await;
    let ended: Vec<_> = node.history().await.iter().map(|attempt| (attempt.run, attempt.outcome)).collect();
    assert_eq!(ended, [(first, RunOutcome::Cancelled), (second, RunOutcome::Succeeded)]);
}

#[tokio::test(start_paused = true)]
async fn body_that_does_not_end_is_dropped_after_the_grace() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let ended = Arc::new(AtomicU32::new(0));
    let counted = ended.clone();
    let body = move |_| {
        let counted = counted.clone();
        async move {
            sleep(secs(60)).await;
            counted.fetch_add(1, SeqCst);
            Ok(())
        }
    };
    let job = node.cron.job("job", Schedule::cron("@yearly").expect("valid schedule"), body);
    job.cancel_grace(secs(3)).register().expect("valid job");
    let node = node.start();
    sleep(secs(1)).await;
    node.cron.trigger("job").await.expect("healthy store");
    sleep(secs(2)).await;
    node.cron.cancel("job").await.expect("healthy store");
    sleep(secs(2)).await;
    assert!(is_open(&node).await, "the grace is not over");
    sleep(secs(100)).await;
    assert_eq!((outcomes(&node).await, ended.load(SeqCst)), (vec![RunOutcome::Cancelled], 0));
}

#[tokio::test(start_paused = true)]
async fn waiting_retry_is_withdrawn() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let starts = Arc::new(AtomicU32::new(0));
    let counted = starts.clone();
    let body = move |_| {
        counted.fetch_add(1, SeqCst);
        async { Err("it fails".into()) }
    };
    let job = node.cron.job("job", Schedule::cron("@yearly").expect("valid schedule"), body);
    let retries = Retries { initial_delay: secs(30), ..Retries::times(3) };
    job.retries(retries).register().expect("valid job");
    let node = node.start();
    sleep(secs(1)).await;
    node.cron.trigger("job").await.expect("healthy store");
    sleep(secs(5)).await;
    assert!(node.cron.cancel("job").await.expect("healthy store"));
    sleep(secs(3)).await;
    assert!(!is_open(&node).await);
    sleep(secs(600)).await;
    assert_eq!((outcomes(&node).await, starts.load(SeqCst)), (vec![RunOutcome::Failed], 1));
}

#[tokio::test(start_paused = true)]
async fn postponed_retry_is_withdrawn() {
    let fleet = Fleet::new();
    let start = |name| {
        let node = fleet.node(name);
        let schedule = Schedule::cron("@yearly").expect("valid schedule");
        let job = node.cron.job("job", schedule, |_| async { Err("it fails".into()) });
        let retries = Retries { initial_delay: secs(600), max_delay: secs(600), ..Retries::times(3) };
        job.retries(retries).register().expect("valid job");
        node.start()
    };
    let first = start("a");
    sleep(secs(1)).await;
    first.cron.trigger("job").await.expect("healthy store");
    sleep(secs(3)).await;
    let second = start("b");
    sleep(secs(1)).await;
    first.stop().await;
    sleep(secs(60)).await;
    assert!(is_open(&second).await, "the retry waits for the rest of its back-off");
    assert!(second.cron.cancel("job").await.expect("healthy store"));
    sleep(secs(3)).await;
    assert!(!is_open(&second).await);
    sleep(secs(1_200)).await;
    assert_eq!(outcomes(&second).await, [RunOutcome::Failed]);
}

#[tokio::test(start_paused = true)]
async fn run_of_a_dead_node_is_not_run_again() {
    let fleet = Fleet::new();
    let nodes = ["a", "b"].map(|name| {
        let node = fleet.node(name);
        let job = node.job("job", "@yearly", secs(600)).on_orphan(OnOrphan::Retry { max: 3 });
        job.register().expect("valid job");
        node.start()
    });
    sleep(secs(2)).await;
    let [leader, other] = if nodes[0].cron.is_leading() { [0, 1] } else { [1, 0] };
    nodes[other].cron.trigger("job").await.expect("healthy store");
    sleep(secs(2)).await;
    nodes[leader].kill();
    assert!(nodes[other].cron.cancel("job").await.expect("healthy store"));
    sleep(secs(120)).await;
    assert_eq!(outcomes(&nodes[other]).await, [RunOutcome::Abandoned]);
    assert_eq!(fleet.log.starts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn lost_renewal_only_delays_the_end() {
    let fleet = Fleet::new();
    let node = fleet.simple("a", "@yearly", secs(600)).await;
    sleep(secs(1)).await;
    node.cron.trigger("job").await.expect("healthy store");
    sleep(secs(2)).await;
    node.faulty.script(Op::RenewRuns, [Fault::LoseRequest, Fault::ApplyThenLose]);
    node.cron.cancel("job").await.expect("healthy store");
    sleep(secs(60)).await;
    assert_eq!(outcomes(&node).await, [RunOutcome::Cancelled]);
}
