//! Jobs that have not succeeded for their `alert_after`.

use crate::fleet::{Fleet, Node, Running, secs};
use lock_cron::{CronErrorKind, Placement, Schedule};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;

const fn minutes(n: u64) -> Duration {
    secs(60 * n)
}

/// Registers the job `job`, which runs every minute, succeeds while `healthy`, and alerts after five minutes.
fn register(node: &Node, healthy: &Arc<AtomicBool>) {
    let healthy = healthy.clone();
    let every_minute = Schedule::cron("* * * * *").expect("valid schedule");
    let job = node.cron.job("job", every_minute, move |_| {
        let healthy = healthy.load(Ordering::SeqCst);
        async move { if healthy { Ok(()) } else { Err("it fails".into()) } }
    });
    job.alert_after(minutes(5)).placement(Placement::Leader).register().expect("valid job");
}

fn start(fleet: &Fleet, name: &str, healthy: &Arc<AtomicBool>) -> Running {
    let node = fleet.node(name);
    register(&node, healthy);
    node.start()
}

async fn is_overdue(node: &Running) -> bool {
    node.cron.list().await.expect("healthy store")[0].overdue
}

#[tokio::test(start_paused = true)]
async fn job_without_a_success_is_reported_once_until_it_succeeds() {
    let (fleet, healthy) = (Fleet::new(), Arc::new(AtomicBool::new(true)));
    let node = start(&fleet, "a", &healthy);
    sleep(minutes(10)).await;
    healthy.store(false, Ordering::SeqCst);
    sleep(minutes(4)).await;
    assert_eq!((fleet.log.overdue(), is_overdue(&node).await), (vec![], false));
    sleep(minutes(10)).await;
    assert_eq!((fleet.log.overdue(), is_overdue(&node).await), (vec!["job overdue".to_owned()], true));
    healthy.store(true, Ordering::SeqCst);
    sleep(minutes(3)).await;
    assert_eq!(fleet.log.overdue(), ["job overdue", "job succeeded"]);
    assert!(!is_overdue(&node).await);
    healthy.store(false, Ordering::SeqCst);
    sleep(minutes(10)).await;
    assert_eq!(fleet.log.overdue().len(), 3, "overdue again");
}

#[tokio::test(start_paused = true)]
async fn job_that_never_succeeds_is_overdue_from_its_registration() {
    let (fleet, healthy) = (Fleet::new(), Arc::new(AtomicBool::new(false)));
    let _node = start(&fleet, "a", &healthy);
    sleep(minutes(4)).await;
    assert_eq!(fleet.log.overdue(), [""; 0]);
    sleep(minutes(3)).await;
    assert_eq!(fleet.log.overdue(), ["job overdue"]);
}

#[tokio::test(start_paused = true)]
async fn overdue_job_is_reported_again_by_the_next_leader_alone() {
    let (fleet, healthy) = (Fleet::new(), Arc::new(AtomicBool::new(false)));
    let first = start(&fleet, "a", &healthy);
    sleep(secs(1)).await;
    let _second = start(&fleet, "b", &healthy);
    sleep(minutes(10)).await;
    assert_eq!(fleet.log.overdue(), ["job overdue"], "reported only by the leader");
    first.stop().await;
    sleep(minutes(2)).await;
    assert_eq!(fleet.log.overdue(), ["job overdue", "job ended", "job overdue"]);
}

#[tokio::test(start_paused = true)]
async fn outage_of_all_nodes_counts() {
    let (fleet, healthy) = (Fleet::new(), Arc::new(AtomicBool::new(true)));
    let node = start(&fleet, "a", &healthy);
    sleep(minutes(2)).await;
    node.stop().await;
    sleep(minutes(60)).await;
    healthy.store(false, Ordering::SeqCst);
    let _next = start(&fleet, "b", &healthy);
    sleep(minutes(2)).await;
    assert_eq!(fleet.log.overdue(), ["job overdue"]);
}

#[tokio::test(start_paused = true)]
async fn paused_job_is_not_overdue_and_a_resume_restarts_the_time() {
    let (fleet, healthy) = (Fleet::new(), Arc::new(AtomicBool::new(false)));
    let node = start(&fleet, "a", &healthy);
    sleep(minutes(7)).await;
    node.cron.pause("job").await.expect("healthy store");
    sleep(minutes(20)).await;
    assert_eq!(fleet.log.overdue(), ["job overdue", "job ended"]);
    node.cron.resume("job").await.expect("healthy store");
    sleep(minutes(4)).await;
    assert_eq!(fleet.log.overdue().len(), 2, "the time restarts with the resume");
    sleep(minutes(3)).await;
    assert_eq!(fleet.log.overdue()[2..], ["job overdue"]);
}

#[tokio::test(start_paused = true)]
async fn instances_of_a_kind_are_overdue_separately() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let kind = node.cron.kind("import", |run| async move {
        if run.payload::<bool>()? { Ok(()) } else { Err("it fails".into()) }
    });
    kind.alert_after(minutes(5)).register().expect("valid kind");
    let node = node.start();
    let every_minute = || Schedule::cron("* * * * *").expect("valid schedule");
    for (id, succeeds) in [("good", true), ("bad", false)] {
        node.cron.add("import", id, every_minute(), &succeeds).await.expect("healthy store");
    }
    sleep(minutes(10)).await;
    assert_eq!(fleet.log.overdue(), ["import/bad overdue"]);
    let listed = node.cron.list().await.expect("healthy store");
    assert_eq!(listed.iter().map(|job| job.overdue).collect::<Vec<_>>(), [true, false]);
    node.cron.remove("import", "bad").await.expect("healthy store");
    sleep(minutes(2)).await;
    assert_eq!(fleet.log.overdue(), ["import/bad overdue", "import/bad ended"]);
}

#[tokio::test(start_paused = true)]
async fn alert_shorter_than_the_interval_is_refused() {
    let node = Fleet::new().node("a");
    for (schedule, after, word) in [
        ("* * * * *", secs(59), "at least"),
        ("0 2 * * *", minutes(24 * 60), "86400s apart"),
        ("0 2 * * MON-FRI", minutes(25 * 60), "259200s"),
    ] {
        let refused = node.job("job", schedule, secs(1)).alert_after(after).register().unwrap_err();
        assert_eq!(refused.kind(), CronErrorKind::InvalidOptions);
        assert!(refused.to_string().contains(word), "{refused}");
    }
    node.job("job", "0 2 * * *", secs(1)).alert_after(minutes(26 * 60)).register().expect("valid job");
}

#[tokio::test(start_paused = true)]
async fn another_payload_does_not_restart_the_time_of_an_instance() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let kind = node.cron.kind("import", |_| async { Err("it fails".into()) });
    kind.alert_after(minutes(5)).register().expect("a good kind");
    let node = node.start();
    for payload in 0..5 {
        let every_minute = Schedule::cron("* * * * *").expect("a good schedule");
        node.cron.add("import", "a", every_minute, &payload).await.expect("a healthy fleet answers");
        sleep(minutes(2)).await;
    }
    assert_eq!(fleet.log.overdue(), ["import/a overdue"]);
    assert!(is_overdue(&node).await);
}
