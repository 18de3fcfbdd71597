//! A loss of the group's data: what running nodes restore, and what the leader reports.

use crate::fleet::{Fleet, Running, secs};
use lock_core::clock::TestClock;
use lock_cron::{AddOutcome, PauseNote, Placement};
use lock_testkit::Fault;
use tokio::time::sleep;

fn note() -> PauseNote {
    PauseNote { actor: "ada".to_owned(), text: "the bank is closed".to_owned() }
}

/// Starts two nodes with one job, which is due every minute, and pauses it.
async fn paused_pair(fleet: &Fleet) -> (Running, Running) {
    let first = fleet.simple("a", "* * * * *", secs(0)).await;
    sleep(secs(1)).await;
    let second = fleet.simple("b", "* * * * *", secs(0)).await;
    sleep(secs(2)).await;
    first.cron.pause_with_note("job", note()).await.expect("healthy store");
    sleep(secs(3)).await;
    (first, second)
}

/// Starts a node with the kind `import`, whose bodies record their starts.
fn importing(fleet: &Fleet) -> Running {
    let node = fleet.node("a");
    let write = node.writer();
    let kind = node.cron.kind("import", move |run| {
        write(&run);
        async { Ok(()) }
    });
    kind.register().expect("valid kind");
    node.start()
}

async fn is_paused(node: &Running) -> bool {
    node.cron.list().await.expect("healthy store")[0].paused
}

#[tokio::test(start_paused = true)]
async fn pause_survives_with_its_note() {
    let fleet = Fleet::new();
    let (first, _second) = paused_pair(&fleet).await;
    fleet.lose_data();
    sleep(secs(600)).await;
    assert_eq!(fleet.log.starts(), [], "still paused");
    assert_eq!(first.cron.list().await.expect("healthy store")[0].note, note());
    fleet.lose_data();
    sleep(secs(600)).await;
    assert_eq!(fleet.log.starts(), [], "still paused after a second loss");
    first.cron.resume("job").await.expect("healthy store");
    sleep(secs(120)).await;
    assert_eq!(fleet.log.starts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn pause_survives_the_loss_of_data_and_leader() {
    let fleet = Fleet::new();
    let (first, _second) = paused_pair(&fleet).await;
    first.kill();
    fleet.lose_data();
    sleep(secs(600)).await;
    assert_eq!(fleet.log.starts(), [], "the other node restores the pause");
}

#[tokio::test(start_paused = true)]
async fn resume_after_the_loss_is_not_overridden() {
    let fleet = Fleet::new();
    let (first, second) = paused_pair(&fleet).await;
    let tool = fleet.node("tool");
    tool.job("job", "* * * * *", secs(0)).register().expect("valid job");
    for node in [&first, &second] {
        node.faulty.always_all(Fault::Hang);
    }
    fleet.lose_data();
    tool.cron.resume("job").await.expect("healthy store");
    for node in [&first, &second] {
        node.faulty.heal();
    }
    sleep(secs(200)).await;
    assert!(!is_paused(&first).await);
    assert!(!fleet.log.starts().is_empty(), "the operator resumed it");
}

#[tokio::test(start_paused = true)]
async fn stale_node_does_not_restore_a_pause_after_a_resume() {
    let fleet = Fleet::new();
    let (first, second) = paused_pair(&fleet).await;
    second.faulty.always_all(Fault::Hang);
    sleep(secs(10)).await;
    first.cron.resume("job").await.expect("healthy store");
    sleep(secs(3)).await;
    fleet.lose_data();
    sleep(secs(3)).await;
    second.faulty.heal();
    sleep(secs(200)).await;
    assert!(!is_paused(&first).await, "the first node has read the resume");
    assert!(!fleet.log.starts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn replaced_schedule_survives() {
    let fleet = Fleet::new();
    let node = fleet.simple("a", "* * * * *", secs(0)).await;
    sleep(secs(2)).await;
    node.cron.replace("job", "@yearly").await.expect("healthy store");
    sleep(secs(2)).await;
    fleet.lose_data();
    sleep(secs(300)).await;
    assert!(node.cron.list().await.expect("healthy store")[0].replaced);
    assert_eq!(fleet.log.starts(), []);
}

#[tokio::test(start_paused = true)]
async fn readded_instance_is_paused_again() {
    let fleet = Fleet::new();
    let node = importing(&fleet);
    let add = async || {
        let every_minute = lock_cron::Schedule::cron("* * * * *").expect("valid schedule");
        node.cron.add("import", "a", every_minute, &7).await.expect("healthy store");
    };
    add().await;
    sleep(secs(2)).await;
    node.cron.pause("import/a").await.expect("healthy store");
    sleep(secs(2)).await;
    fleet.lose_data();
    sleep(secs(30)).await;
    add().await;
    sleep(secs(300)).await;
    assert_eq!(fleet.log.starts(), []);
}

#[tokio::test(start_paused = true)]
async fn loss_does_not_decide_a_paused_one_off_run() {
    let fleet = Fleet::new();
    let node = importing(&fleet);
    let add = async || {
        let at = TestClock::WALL_AT_START + secs(60);
        node.cron.once("import", "a", at, &7).await.expect("healthy store")
    };
    assert_eq!(add().await, AddOutcome::Added);
    sleep(secs(2)).await;
    node.cron.pause("import/a").await.expect("healthy store");
    sleep(secs(120)).await;
    fleet.lose_data();
    sleep(secs(30)).await;
    assert_eq!(add().await, AddOutcome::Added, "not run yet");
    sleep(secs(30)).await;
    assert_eq!(fleet.log.starts(), [], "still paused");
    node.cron.resume("import/a").await.expect("healthy store");
    sleep(secs(30)).await;
    assert_eq!(fleet.log.starts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn loss_of_the_whole_group_is_reported_once() {
    let fleet = Fleet::new();
    let start = |name| {
        let node = fleet.node(name);
        for job in ["one", "two", "three"] {
            let job = node.job(job, "* * * * *", secs(0)).placement(Placement::Leader);
            job.register().expect("valid job");
        }
        node.start()
    };
    let (_first, _second) = (start("a"), start("b"));
    sleep(secs(90)).await;
    assert_eq!(fleet.log.data_lost(), 0);
    fleet.lose_data();
    sleep(secs(300)).await;
    assert_eq!(fleet.log.data_lost(), 1);
}
