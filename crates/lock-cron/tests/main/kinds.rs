//! Instances of kinds: added, changed and removed at run time, by any node.

use crate::fleet::{Fleet, Node, Running, second, secs};
use lock_core::clock::TestClock;
use lock_cron::{
    AddOutcome, CronErrorKind, JobBuilder, MAX_PAYLOAD_BYTES, OnOrphan, Overlap, Retries, RunOutcome,
    Schedule, Scheduler, UtcTime,
};
use std::sync::{Arc, Mutex};
use tokio::time::sleep;

const MINUTELY: &str = "* * * * *";

/// The starts of all nodes: node, second of the instant, payload.
#[derive(Debug, Clone, Default)]
struct Starts(Arc<Mutex<Vec<(String, u64, u32)>>>);

impl Starts {
    fn take(&self) -> Vec<(String, u64, u32)> {
        std::mem::take(&mut self.0.lock().expect("not poisoned"))
    }

    /// Returns the seconds of the instants, in order, with their payloads.
    fn instants(&self) -> Vec<(u64, u32)> {
        let mut instants: Vec<_> = self.take().into_iter().map(|(_, at, payload)| (at, payload)).collect();
        instants.sort_unstable();
        instants
    }
}

fn schedule(text: &str) -> Schedule {
    Schedule::cron(text).expect("valid schedule")
}

/// Returns a kind whose bodies take this time.
fn import(node: &Node, name: &str, starts: &Starts, takes: u64) -> JobBuilder {
    let (name, starts) = (name.to_owned(), starts.clone());
    node.cron.kind("import", move |run| {
        let (name, starts) = (name.clone(), starts.clone());
        async move {
            let payload = run.payload()?;
            let at = run
                .id()
                .scheduled()
                .map_or(0, |at| if at < TestClock::WALL_AT_START { 0 } else { second(at) });
            starts.0.lock().expect("not poisoned").push((name, at, payload));
            tokio::select! {
                () = sleep(secs(takes)) => Ok(()),
                () = run.cancelled() => Err("cancelled".into()),
            }
        }
    })
}

/// Starts a node with the kind.
fn start(fleet: &Fleet, name: &str, starts: &Starts) -> Running {
    let node = fleet.node(name);
    import(&node, name, starts, 0).register().expect("valid kind");
    node.start()
}

async fn add(cron: &Scheduler, text: &str, payload: u32) -> AddOutcome {
    cron.add("import", "tenant-7", schedule(text), &payload).await.expect("healthy store")
}

#[tokio::test(start_paused = true)]
async fn added_instance_runs_once_on_the_nodes_of_its_kind() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let nodes = ["a", "b"].map(|name| start(&fleet, name, &starts));
    let other = fleet.node("c");
    other.job("job", "@yearly", secs(0)).register().expect("valid job");
    let other = other.start();
    sleep(secs(30)).await;
    assert_eq!(add(&other.cron, MINUTELY, 7).await, AddOutcome::Added);
    assert_eq!(
        add(&nodes[0].cron, MINUTELY, 7).await,
        AddOutcome::Unchanged,
        "a repeated request is harmless"
    );
    sleep(secs(20 * 60)).await;
    let started = starts.take();
    for name in ["a", "b"] {
        assert!(started.iter().any(|(node, ..)| node == name), "the runs are spread: {started:?}");
    }
    let mut instants: Vec<_> = started.iter().map(|(_, at, payload)| (*at, *payload)).collect();
    instants.sort_unstable();
    assert_eq!(instants, (1..=20).map(|minute| (minute * 60, 7)).collect::<Vec<_>>());
    let info = &other.cron.list().await.expect("healthy store")[0];
    let instance = info.instance.as_ref().expect("an instance");
    assert_eq!((info.name.as_str(), instance.kind.as_str()), ("import/tenant-7", "import"));
    assert_eq!((instance.added_by.as_str(), info.unowned), ("c", false));
    assert_eq!(other.cron.payload("import", "tenant-7").await.expect("stored").as_deref(), Some("7"));
    assert_eq!(other.cron.next_runs("import/tenant-7", 2).await.expect("stored").len(), 2);
    assert_eq!(other.cron.history("import/tenant-7", 50).await.expect("has run").len(), 20);
}

#[tokio::test(start_paused = true)]
async fn instance_survives_the_restart_of_all_nodes() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let first = start(&fleet, "a", &starts);
    add(&first.cron, MINUTELY, 7).await;
    sleep(secs(90)).await;
    first.stop().await;
    assert_eq!(starts.instants(), [(60, 7)]);
    sleep(secs(20)).await;
    let second = start(&fleet, "b", &starts);
    sleep(secs(60)).await;
    assert_eq!(starts.instants(), [(120, 7)]);
    second.kill();
    sleep(secs(60)).await;
    let _third = start(&fleet, "c", &starts);
    sleep(secs(60)).await;
    assert_eq!(starts.instants(), [(180, 7), (240, 7)], "the missed instant is caught up");
}

#[tokio::test(start_paused = true)]
async fn removed_instance_stops_and_readding_runs_no_past() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let nodes = ["a", "b"].map(|name| start(&fleet, name, &starts));
    add(&nodes[0].cron, MINUTELY, 7).await;
    sleep(secs(70)).await;
    assert!(nodes[1].cron.remove("import", "tenant-7").await.expect("healthy store"));
    assert!(!nodes[0].cron.remove("import", "tenant-7").await.expect("healthy store"));
    sleep(secs(600)).await;
    assert_eq!(starts.instants(), [(60, 7)]);
    assert_eq!(add(&nodes[0].cron, MINUTELY, 8).await, AddOutcome::Added);
    sleep(secs(60)).await;
    assert_eq!(starts.instants(), [(720, 8)], "no past instant runs");
    assert_eq!(nodes[0].cron.history("import/tenant-7", 9).await.expect("has run").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn change_reaches_every_node_within_two_seconds() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let nodes = ["a", "b"].map(|name| start(&fleet, name, &starts));
    for round in 1..=20 {
        let cron = &nodes[usize::from(round % 2 == 0)].cron;
        // Each round ends one second after a minute; the change comes two seconds before the next minute.
        sleep(secs(if round == 1 { 58 } else { 57 })).await;
        let expected = if round == 1 { AddOutcome::Added } else { AddOutcome::Changed };
        assert_eq!(add(cron, MINUTELY, round).await, expected);
        sleep(secs(3)).await;
        assert_eq!(starts.instants(), [(u64::from(round) * 60, round)]);
    }
}

#[tokio::test(start_paused = true)]
async fn changed_schedule_during_a_run_runs_no_past_instants() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = fleet.node("a");
    import(&node, "a", &starts, 100).overlap(Overlap::Allow { max: 9 }).register().expect("valid kind");
    let running = node.start();
    add(&running.cron, "*/10 * * * *", 7).await;
    sleep(secs(630)).await;
    assert_eq!(starts.instants(), [(600, 7)]);
    assert_eq!(add(&running.cron, MINUTELY, 8).await, AddOutcome::Changed);
    sleep(secs(60)).await;
    assert_eq!(starts.instants(), [(660, 8)]);
    sleep(secs(100)).await;
    let history = running.cron.history("import/tenant-7", 9).await.expect("has run");
    assert!(history.iter().all(|attempt| attempt.outcome == RunOutcome::Succeeded), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn payload_of_another_type_fails_without_a_retry() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = fleet.node("a");
    import(&node, "a", &starts, 0).retries(Retries::times(5)).register().expect("valid kind");
    let running = node.start();
    let added = running.cron.add("import", "tenant-7", schedule("@hourly"), &"seven").await;
    assert_eq!(added.expect("healthy store"), AddOutcome::Added);
    sleep(secs(3700)).await;
    let history = running.cron.history("import/tenant-7", 9).await.expect("has run");
    assert_eq!(history.iter().map(|attempt| attempt.outcome).collect::<Vec<_>>(), [RunOutcome::Failed]);
    assert!(
        history[0].detail.contains("the payload does not match the requested type"),
        "{}",
        history[0].detail
    );
    assert_eq!(starts.take(), []);
}

#[tokio::test(start_paused = true)]
async fn instance_without_a_node_of_its_kind_is_unowned() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let other = fleet.node("c");
    other.job("job", "@yearly", secs(0)).register().expect("valid job");
    let other = other.start();
    add(&other.cron, MINUTELY, 7).await;
    sleep(secs(130)).await;
    assert_eq!(fleet.log.unowned(), ["import/tenant-7"], "it is reported once");
    let unowned = async || other.cron.list().await.expect("healthy store")[0].unowned;
    assert!(unowned().await);
    let _node = start(&fleet, "a", &starts);
    sleep(secs(60)).await;
    assert!(!unowned().await);
    assert!(starts.instants().contains(&(180, 7)));
}

#[tokio::test(start_paused = true)]
async fn forgotten_instance_loses_its_run_and_its_history() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = fleet.node("a");
    import(&node, "a", &starts, 1_000).register().expect("valid kind");
    let running = node.start();
    add(&running.cron, MINUTELY, 7).await;
    sleep(secs(70)).await;
    running.cron.pause("import/tenant-7").await.expect("stored");
    assert!(running.cron.forget("import", "tenant-7").await.expect("healthy store"));
    assert!(!running.cron.forget("import", "tenant-7").await.expect("healthy store"));
    sleep(secs(30)).await;
    assert_eq!(fleet.log.ended(RunOutcome::Abandoned), 1, "the open run is lost");
    assert_eq!(running.cron.list().await.expect("healthy store").len(), 0);
    let history = running.cron.history("import/tenant-7", 9).await;
    assert_eq!(history.unwrap_err().kind(), CronErrorKind::UnknownJob);
    add(&running.cron, MINUTELY, 8).await;
    sleep(secs(60)).await;
    assert_eq!(starts.instants(), [(60, 7), (120, 8)], "the pause is forgotten, too");
}

#[tokio::test(start_paused = true)]
async fn orphan_of_a_removed_instance_is_abandoned() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let kind = |name| {
        let node = fleet.node(name);
        let builder = import(&node, name, &starts, 1_000).on_orphan(OnOrphan::Retry { max: 9 });
        builder.register().expect("valid kind");
        node.start()
    };
    let first = kind("a");
    add(&first.cron, MINUTELY, 7).await;
    sleep(secs(62)).await;
    let second = kind("b");
    sleep(secs(2)).await;
    first.kill();
    assert!(second.cron.remove("import", "tenant-7").await.expect("healthy store"));
    sleep(secs(120)).await;
    let history = second.cron.history("import/tenant-7", 9).await.expect("has run");
    assert_eq!(history.iter().map(|attempt| attempt.outcome).collect::<Vec<_>>(), [RunOutcome::Abandoned]);
    assert_eq!(starts.instants(), [(60, 7)], "without its payload there is no further attempt");
}

#[tokio::test(start_paused = true)]
async fn trigger_runs_a_just_added_instance() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let running = start(&fleet, "a", &starts);
    sleep(secs(5)).await;
    add(&running.cron, "@yearly", 7).await;
    running.cron.trigger("import/tenant-7").await.expect("stored");
    sleep(secs(3)).await;
    assert_eq!(starts.instants(), [(0, 7)]);
    let unknown = running.cron.trigger("import/tenant-8").await.unwrap_err();
    assert_eq!(unknown.kind(), CronErrorKind::UnknownJob);
}

#[tokio::test(start_paused = true)]
async fn loss_of_data_ends_the_instances() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let running = start(&fleet, "a", &starts);
    add(&running.cron, MINUTELY, 7).await;
    sleep(secs(70)).await;
    fleet.lose_data();
    sleep(secs(120)).await;
    assert_eq!(starts.instants(), [(60, 7)]);
    add(&running.cron, MINUTELY, 8).await;
    sleep(secs(60)).await;
    assert_eq!(starts.instants().len(), 1, "it only runs again after it is added again");
}

#[tokio::test(start_paused = true)]
async fn invalid_instances_are_refused() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = fleet.node("a");
    let slash = node.job("import/x", MINUTELY, secs(0)).register().unwrap_err();
    assert_eq!(slash.kind(), CronErrorKind::InvalidName);
    import(&node, "a", &starts, 0).register().expect("valid kind");
    let twice = import(&node, "a", &starts, 0).register().unwrap_err();
    assert_eq!(twice.kind(), CronErrorKind::DuplicateJob);
    let long = "x".repeat(MAX_PAYLOAD_BYTES - 1);
    for (id, payload, kind) in [
        ("", "x", CronErrorKind::InvalidName),
        ("\n", "x", CronErrorKind::InvalidName),
        ("tenant-7", &long, CronErrorKind::InvalidPayload),
    ] {
        let refused = node.cron.add("import", id, schedule(MINUTELY), &payload).await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused:#}");
    }
    node.cron.add("import", "tenant-7", schedule(MINUTELY), &&long[1..]).await.expect("64 KiB of JSON");
}

/// The test clock begins after 2020.
#[tokio::test(start_paused = true)]
async fn schedule_that_is_over_is_refused_and_says_so() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = fleet.node("a");
    import(&node, "a", &starts, 0).register().expect("valid kind");
    node.job("job", MINUTELY, secs(0)).register().expect("valid job");
    let over = "0 0 0 1 1 ? 2020";
    let added = node.cron.add("import", "1", schedule(over), &1).await.unwrap_err();
    let replaced = node.cron.replace("job", over).await.unwrap_err();
    for error in [added, replaced] {
        assert_eq!(error.kind(), CronErrorKind::InvalidSchedule);
        assert!(format!("{error:#}").contains("has no further runs"), "{error:#}");
    }
    assert_eq!(node.cron.list().await.expect("healthy store").len(), 1, "nothing was added");
    let past = UtcTime::from_millis(TestClock::WALL_AT_START.as_millis() - 3_600_000);
    assert_eq!(node.cron.once("import", "1", past, &1).await.expect("runs at once"), AddOutcome::Added);
}

#[tokio::test(start_paused = true)]
async fn past_time_of_a_used_name_runs_at_once() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = start(&fleet, "a", &starts);
    add(&node.cron, MINUTELY, 7).await;
    sleep(secs(130)).await;
    assert_eq!(starts.take().len(), 2);
    for remove_first in [true, false] {
        if remove_first {
            assert!(node.cron.remove("import", "tenant-7").await.expect("healthy store"));
        }
        let past = TestClock::WALL_AT_START + secs(60);
        let once = async || node.cron.once("import", "tenant-7", past, &8).await.expect("healthy store");
        let first = once().await;
        assert_eq!(first, if remove_first { AddOutcome::Added } else { AddOutcome::Changed });
        assert_eq!(once().await, AddOutcome::Unchanged, "a repeated request is harmless");
        sleep(secs(10)).await;
        let payloads: Vec<_> = starts.take().into_iter().map(|(_, _, payload)| payload).collect();
        assert_eq!(payloads, [8]);
        assert_eq!(once().await, AddOutcome::AlreadyRun);
        assert!(node.cron.forget("import", "tenant-7").await.expect("healthy store"));
        add(&node.cron, MINUTELY, 7).await;
        sleep(secs(60)).await;
        starts.take();
    }
}

#[tokio::test(start_paused = true)]
async fn one_off_run_keeps_its_id_for_a_day() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let nodes = ["a", "b"].map(|name| start(&fleet, name, &starts));
    let once = async |at: u64, payload: u32| {
        let at = TestClock::WALL_AT_START + secs(at);
        nodes[0].cron.once("import", "42", at, &payload).await.expect("healthy store")
    };
    assert_eq!(once(500, 1).await, AddOutcome::Added);
    assert_eq!(once(90, 2).await, AddOutcome::Changed);
    assert_eq!(once(90, 2).await, AddOutcome::Unchanged);
    sleep(secs(100)).await;
    assert_eq!(starts.instants(), [(90, 2)]);
    for hour in 0..24 {
        assert_eq!(once(if hour == 0 { 90 } else { 200_000 }, 2).await, AddOutcome::AlreadyRun, "{hour}");
        let refused = nodes[0].cron.add("import", "42", schedule(MINUTELY), &1).await.unwrap_err();
        assert_eq!(refused.kind(), CronErrorKind::DuplicateJob);
        sleep(secs(3600)).await;
    }
    let history = nodes[0].cron.history("import/42", 9).await;
    assert_eq!(history.unwrap_err().kind(), CronErrorKind::UnknownJob, "no history is left");
    assert_eq!(once(90, 3).await, AddOutcome::Added);
    sleep(secs(5)).await;
    assert_eq!(starts.instants(), [(90, 3)], "an instant in the past runs at once");
}

#[tokio::test(start_paused = true)]
async fn one_off_run_waits_for_a_node_and_can_be_withdrawn() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let tool = fleet.node("tool");
    for id in ["42", "43"] {
        let added = tool.cron.once("import", id, UtcTime::from_millis(1), &7).await;
        assert_eq!(added.expect("healthy store"), AddOutcome::Added);
    }
    assert!(tool.cron.remove("import", "43").await.expect("healthy store"));
    let _node = start(&fleet, "a", &starts);
    sleep(secs(30)).await;
    assert_eq!(starts.take().len(), 1);
    let listed = tool.cron.list().await.expect("healthy store");
    assert_eq!(listed.len(), 0, "{listed:?}");
}

/// A pattern of 1,020 bytes: with a time zone, its text is longer than the texts that are read.
fn long_pattern() -> String {
    format!("{} 2 * * *", vec!["10"; 338].join(","))
}

#[tokio::test(start_paused = true)]
async fn schedule_that_no_node_could_read_again_is_refused() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let node = fleet.node("a");
    let in_berlin = schedule(&long_pattern()).in_tz("Europe/Berlin").expect("a known zone");
    node.cron.job("job", in_berlin.clone(), |_| async { Ok(()) }).register().expect("a good job");
    import(&node, "a", &starts, 0).register().expect("a good kind");
    let running = node.start();
    let cron = &running.cron;
    sleep(secs(2)).await;
    let replacement = format!("TZ=Europe/Berlin {}", &long_pattern()[16..]);
    let days = TestClock::WALL_AT_START - secs(2 * 86_400)..TestClock::WALL_AT_START;
    // The last day of 9999 is how databases write `never`.
    let never = UtcTime::from_millis(253_402_300_799_000);
    let answers = [
        cron.add("import", "long", in_berlin, &7).await.map(drop),
        cron.once("import", "never", never, &7).await.map(drop),
        cron.replace("job", &replacement).await,
        cron.backfill("job", days, 2).await.map(drop),
    ];
    let refused = [Err(CronErrorKind::InvalidSchedule); 4];
    assert_eq!(answers.map(|answer| answer.map_err(|error| error.kind())), refused);
}

#[tokio::test(start_paused = true)]
async fn instance_does_not_displace_a_run_that_was_added_with_once() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let running = start(&fleet, "a", &starts);
    let at = TestClock::WALL_AT_START + secs(90);
    running.cron.once("import", "tenant-7", at, &1).await.expect("a healthy fleet answers");
    let added = running.cron.add("import", "tenant-7", schedule("@yearly"), &2).await;
    assert_eq!(added.map_err(|error| error.kind()), Err(CronErrorKind::DuplicateJob));
    sleep(secs(120)).await;
    assert_eq!(starts.instants(), [(90, 1)]);
}

#[tokio::test(start_paused = true)]
async fn reset_does_not_lose_a_run_that_is_late() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let running = start(&fleet, "a", &starts);
    let at = TestClock::WALL_AT_START + secs(90);
    running.cron.once("import", "42", at, &7).await.expect("a healthy fleet answers");
    running.cron.pause("import/42").await.expect("it is stored");
    sleep(secs(120)).await;
    running.cron.reset("import/42").await.expect("it is stored");
    running.cron.resume("import/42").await.expect("it is stored");
    sleep(secs(30)).await;
    assert_eq!(starts.instants(), [(90, 7)]);
}
