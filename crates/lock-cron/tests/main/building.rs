//! Jobs and schedulers that are rejected before anything runs, and the error messages.

use crate::fleet::{Fleet, secs};
use lock_core::{LockFactory, MemoryBackend};
use lock_cron::{CronErrorKind, Jitter, MemoryLedger, Misfire, Overlap, Schedule, Scheduler};

#[test]
fn invalid_groups_and_leases_are_refused() {
    let builder = || Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new());
    let long = "n".repeat(201);
    for group in ["", "a{b}", "distlock:x", &long] {
        assert_eq!(builder().group(group).build().unwrap_err().kind(), CronErrorKind::InvalidName, "{group}");
    }
    let empty = builder().group("").build().unwrap_err();
    assert!(
        empty.to_string().contains("the group name is empty") && !format!("{empty:#}").contains("lock name")
    );
    let short = std::time::Duration::from_millis(999);
    for builder in [
        builder().leadership_lease(short),
        builder().run_lease(short),
        builder().run_lease(secs(1_000_000)),
        builder().node(&long),
    ] {
        assert_eq!(builder.build().unwrap_err().kind(), CronErrorKind::InvalidOptions);
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_jobs_are_refused() {
    let node = Fleet::new().node("a");
    let job = || node.job("job", "@daily", secs(1));
    for (builder, word) in [
        (job().overlap(Overlap::Allow { max: 0 }), "at least 1"),
        (job().misfire(Misfire::FireAll { max: 0 }), "Misfire::Skip"),
        (job().timeout(secs(0)), "timeout"),
        (job().grace(std::time::Duration::from_millis(999)), "at least a second"),
    ] {
        let error = builder.register().unwrap_err();
        assert_eq!(error.kind(), CronErrorKind::InvalidOptions);
        assert!(error.to_string().contains(word), "{error}");
        assert!(error.to_string().contains("job `job`"), "the job is named: {error}");
    }
    let long = "n".repeat(201);
    for (name, shown) in
        [("", ""), ("a\n", "a\\n"), ("\u{1b}[2J", "\\u{1b}[2J"), (".", "."), ("..", ".."), (&long, &long)]
    {
        let error = node.job(name, "@daily", secs(1)).register().unwrap_err();
        assert_eq!(error.kind(), CronErrorKind::InvalidName, "{name}");
        assert!(error.to_string().contains(&format!("job `{shown}`")), "{error}");
        assert!(!error.to_string().contains(char::is_control), "an error is one line: {error}");
    }
    job().register().unwrap();
    let twice = job().register().unwrap_err();
    assert_eq!(twice.kind(), CronErrorKind::DuplicateJob);
    assert!(twice.to_string().ends_with("(job `job`)"), "{twice}");
    // For some names, `H` is February.
    let register =
        |n| node.job(&format!("h-{n}"), "0 0 30 H *", secs(1)).register().map_err(|error| (n, error));
    let (n, impossible) = (0..50).find_map(|n| register(n).err()).expect("one of the names");
    assert_eq!(impossible.kind(), CronErrorKind::InvalidSchedule);
    assert!(impossible.to_string().contains(&format!("job `h-{n}`")), "{impossible}");
}

#[tokio::test(start_paused = true)]
async fn scheduler_runs_once_and_refuses_jobs_while_running() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "@daily", secs(1)).await;
    tokio::time::sleep(secs(1)).await;
    let again = running.cron.run_until(std::future::ready(())).await.unwrap_err();
    let late = running.cron.job("late", Schedule::cron("@daily").unwrap(), |_| async { Ok(()) });
    for error in [again, late.register().unwrap_err()] {
        assert_eq!(error.kind(), CronErrorKind::Running);
    }
}

#[tokio::test(start_paused = true)]
async fn error_of_an_ended_scheduler_has_a_remedy() {
    let fleet = Fleet::new();
    let cron = fleet.node("a").cron;
    cron.run_until(std::future::ready(())).await.unwrap();
    let again = cron.run_until(std::future::ready(())).await.unwrap_err();
    let late =
        cron.job("late", Schedule::cron("@daily").unwrap(), |_| async { Ok(()) }).register().unwrap_err();
    for error in [again, late] {
        assert_eq!(error.kind(), CronErrorKind::Ended);
        assert!(error.to_string().contains("build a new one"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn register_does_no_io_and_the_leader_waits_for_the_store() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    node.faulty.always_all(lock_testkit::Fault::Hang);
    node.job("job", "* * * * * *", secs(0)).register().unwrap();
    assert_eq!(node.faulty.calls(lock_testkit::Op::Register), 0);
    let running = node.start();
    tokio::time::sleep(secs(10)).await;
    running.faulty.heal();
    tokio::time::sleep(secs(10)).await;
    assert!(!fleet.log.instants().is_empty(), "continues by itself");
}

#[tokio::test(start_paused = true)]
async fn command_registers_a_job_that_no_leader_has_registered() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    node.job("job", "@yearly", secs(0)).register().unwrap();
    let id = node.cron.trigger("job").await.unwrap();
    let _running = node.start();
    tokio::time::sleep(secs(2)).await;
    assert_eq!(fleet.log.starts().iter().map(|start| start.run).collect::<Vec<_>>(), [id]);
}

#[test]
fn options_out_of_their_range_are_refused() {
    let builder = || Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new());
    for builder in [
        builder().history(0),
        builder().history(1001),
        builder().trigger_life(secs(0)),
        builder().trigger_life(std::time::Duration::MAX),
    ] {
        assert_eq!(builder.build().unwrap_err().kind(), CronErrorKind::InvalidOptions);
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_beyond_the_range_of_clocks_is_refused() {
    let node = Fleet::new().node("a");
    for jitter in [Jitter::Fixed(secs(86_401)), Jitter::Random(std::time::Duration::MAX)] {
        let error = node.job("job", "@daily", secs(1)).jitter(jitter).register().unwrap_err();
        assert_eq!(error.kind(), CronErrorKind::InvalidOptions, "{jitter:?}");
    }
    node.job("job", "@daily", secs(1)).jitter(Jitter::Fixed(secs(86_400))).register().unwrap();
}

#[tokio::test(start_paused = true)]
async fn jitter_longer_than_the_interval_is_refused() {
    let node = Fleet::new().node("a");
    let mut number = 0;
    let mut register = |schedule: &str, jitter| {
        number += 1;
        node.job(&format!("job-{number}"), schedule, secs(1)).jitter(Jitter::Random(jitter)).register()
    };
    for (schedule, most) in [("* * * * *", 60), ("0,50 * * * *", 600), ("@at 2030-01-01T00:00:00Z", 86_400)] {
        register(schedule, secs(most)).unwrap();
        let error = register(schedule, secs(most + 1)).unwrap_err();
        assert_eq!(error.kind(), CronErrorKind::InvalidOptions, "{schedule}");
        assert!(error.to_string().contains("jitter"), "{error}");
    }
}
