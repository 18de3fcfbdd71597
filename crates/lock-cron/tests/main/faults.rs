//! A store that fails: lost replies, outages, and random faults.

use crate::fleet::{Fleet, Running, secs};
use lock_cron::{Misfire, OnOrphan, Overlap, Retries, RunContext, Schedule, observer::SkipReason};
use lock_ledger::RunOutcome;
use lock_testkit::{Fault, Op, Phase, Seed};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{sync::Notify, time::sleep};

#[tokio::test(start_paused = true)]
async fn lost_claim_reply_starts_once() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * * *", secs(0)).await;
    let _other = fleet.simple("b", "* * * * * *", secs(0)).await;
    sleep(Duration::from_millis(500)).await;
    for fault in [Fault::ApplyThenLose, Fault::LoseRequest, Fault::ApplyThenHang, Fault::Hang] {
        running.faulty.script(Op::Claim, [fault, Fault::None, fault, fault]);
        sleep(secs(10)).await;
    }
    fleet.log.assert_each_once();
    // A hanging claim is abandoned after a second, and the instants of that second are late.
    let instants = fleet.log.instants();
    assert!(instants.len() >= 36 && instants.ends_with(&[38, 39, 40]), "{instants:?}");
}

#[tokio::test(start_paused = true)]
async fn lost_claim_reply_starts_once_across_leaders() {
    let fleet = Fleet::new();
    let first = fleet.simple("a", "* * * * *", secs(1)).await;
    sleep(secs(1)).await;
    let second = fleet.simple("b", "* * * * *", secs(1)).await;
    sleep(Duration::from_millis(58_900)).await;
    // The claim is applied, but the leader dies without receiving the answer.
    first.faulty.always(Op::Claim, Fault::ApplyThenHang);
    sleep(secs(3)).await;
    first.kill();
    sleep(secs(100)).await;
    fleet.log.assert_each_once();
    assert_eq!(fleet.log.instants(), [120], "the dead node had claimed the first minute");
    let history = second.history().await;
    assert_eq!(history[0].outcome, RunOutcome::Abandoned);
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_without_a_store() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * * *", secs(0)).await;
    sleep(Duration::from_millis(10_500)).await;
    running.faulty.always_all(Fault::FailBefore(lock_core::backend::BackendErrorKind::Unavailable));
    sleep(secs(20)).await;
    let during = fleet.log.instants();
    assert_eq!(during, (1..=10).collect::<Vec<_>>());
    running.faulty.heal();
    sleep(secs(20)).await;
    let instants = fleet.log.instants();
    assert!(instants.len() >= 27 && instants.ends_with(&[49, 50]), "{instants:?}");
    fleet.log.assert_each_once();
    assert!(fleet.log.skipped(SkipReason::Missed) >= 1, "missed instants are counted");
}

#[tokio::test(start_paused = true)]
async fn end_with_a_lost_reply_is_recorded_once() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * *", secs(1)).await;
    running.faulty.script(Op::EndRun, [Fault::ApplyThenLose, Fault::LoseRequest, Fault::ApplyThenHang]);
    sleep(secs(130)).await;
    let history = running.history().await;
    assert_eq!(history.len(), 2);
    assert!(history.iter().all(|attempt| attempt.outcome == RunOutcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn random_faults_start_no_instant_twice() {
    let seed = Seed::of_this_run();
    let mut numbers = seed.stream();
    let fleet = Fleet::new();
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        let node = fleet.simple(name, "* * * * * *", Duration::from_millis(300)).await;
        node.faulty.random(numbers.number(), 0.1);
        nodes.push(node);
    }
    sleep(secs(900)).await;
    nodes.iter().for_each(|node| node.faulty.heal());
    let before = fleet.log.starts().len();
    assert!(before > 200, "it works despite the faults: {before}");
    sleep(secs(120)).await;
    fleet.log.assert_each_once();
    let after = fleet.log.starts().len() - before;
    assert!(after >= 70, "it recovers: {after}");
}

/// One instant, at 60 s: an attempt that fails when notified, and another that takes 20 s.
async fn failing_once(fleet: &Fleet) -> (Running, Arc<Notify>) {
    let node = fleet.node("a");
    let fail = Arc::new(Notify::new());
    let (told, write) = (fail.clone(), node.writer());
    let body = move |run: RunContext| {
        write(&run);
        let told = told.clone();
        async move {
            if run.attempt() == 1 {
                told.notified().await;
                return Err("as told by the test".into());
            }
            tokio::select! {
                () = sleep(secs(20)) => Ok(()),
                () = run.cancelled() => Err("cancelled".into()),
            }
        }
    };
    let quick = Duration::from_millis(10);
    let job = node.cron.job("job", Schedule::cron("1 0 1 1 *").expect("valid schedule"), body);
    job.retries(Retries { max: 1, initial_delay: quick, max_delay: quick })
        .register()
        .expect("healthy store");
    (node.start(), fail)
}

#[tokio::test(start_paused = true)]
async fn attempt_survives_a_renewal_of_the_previous_one() {
    let fleet = Fleet::new();
    let (running, fail) = failing_once(&fleet).await;
    sleep(secs(61)).await;
    let renewal = running.faulty.gate(Op::RenewRuns, Phase::Before);
    renewal.reached().await;
    fail.notify_one();
    sleep(Duration::from_millis(50)).await;
    assert_eq!(fleet.log.starts().len(), 2, "the next attempt is under way");
    renewal.open();
    sleep(secs(60)).await;
    let outcomes: Vec<_> = running.history().await.into_iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [RunOutcome::Failed, RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn attempt_survives_a_renewal_during_its_claim() {
    let fleet = Fleet::new();
    let (running, fail) = failing_once(&fleet).await;
    sleep(secs(61)).await;
    let renewal = running.faulty.gate(Op::RenewRuns, Phase::Before);
    renewal.reached().await;
    let claim = running.faulty.gate(Op::Claim, Phase::After);
    fail.notify_one();
    claim.reached().await;
    renewal.open();
    sleep(Duration::from_millis(50)).await;
    claim.open();
    sleep(secs(60)).await;
    let outcomes: Vec<_> = running.history().await.into_iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [RunOutcome::Failed, RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn retry_waits_out_a_short_outage() {
    let fleet = Fleet::new();
    let (running, fail) = failing_once(&fleet).await;
    sleep(secs(61)).await;
    running
        .faulty
        .script(Op::Claim, [Fault::FailBefore(lock_core::backend::BackendErrorKind::Unavailable); 5]);
    fail.notify_one();
    sleep(secs(60)).await;
    let outcomes: Vec<_> = running.history().await.into_iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [RunOutcome::Failed, RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn claim_applied_after_its_timeout_is_still_run() {
    let fleet = Fleet::new();
    let node = |name: &'static str| {
        let node = fleet.node(name);
        let job = node.job("job", "*/10 * * * * *", Duration::from_millis(14_500));
        (job.overlap(Overlap::QueueOne), node)
    };
    let (job, a) = node("a");
    job.register().unwrap();
    let a = a.start();
    sleep(Duration::from_millis(500)).await;
    let (job, b) = node("b");
    job.register().unwrap();
    let b = b.start();
    sleep(secs(11)).await;
    // The 10 s run continues here until 24.5 s, while the other node is the leader.
    let leaving = tokio::spawn(a.stop());
    sleep(secs(1)).await;
    assert!(b.cron.is_leading());
    // The first request for 20 s arrives after the run has ended and before the next request.
    b.faulty.next(Op::Claim, Fault::Late(Duration::from_millis(4_520)));
    sleep(secs(13)).await;
    leaving.await.unwrap();
    assert_eq!(fleet.log.instants(), [10, 20], "{:?}", fleet.memory.held());
    fleet.log.assert_each_once();
}

#[tokio::test(start_paused = true)]
async fn unclaimed_run_is_missed_under_the_same_leader() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    node.job("job", "* * * * * *", secs(0)).misfire(Misfire::Skip).register().unwrap();
    let running = node.start();
    sleep(Duration::from_millis(2_500)).await;
    running.faulty.always(Op::Claim, Fault::FailBefore(lock_core::backend::BackendErrorKind::Unavailable));
    sleep(secs(30)).await;
    running.faulty.heal();
    sleep(secs(3)).await;
    let instants = fleet.log.instants();
    assert!(
        instants.starts_with(&[1, 2]) && instants[2] >= 31 && instants.ends_with(&[34, 35]),
        "{instants:?}"
    );
    assert_eq!(fleet.log.leaders(), 1, "no change of leader");
    assert!(fleet.log.skipped(SkipReason::Missed) >= 28);
}

#[tokio::test(start_paused = true)]
async fn dropped_scheduler_no_longer_leads() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * *", secs(0)).await;
    sleep(secs(1)).await;
    assert!(running.cron.is_leading());
    let cron = running.cron.clone();
    drop(running);
    sleep(secs(1)).await;
    assert!(!cron.is_leading());
}

#[tokio::test(start_paused = true)]
async fn faults_and_deaths_start_no_attempt_twice() {
    let seed = Seed::of_this_run();
    let mut numbers = seed.stream();
    let rules = [Overlap::Skip, Overlap::QueueOne, Overlap::CancelPrevious, Overlap::Allow { max: 3 }];
    for overlap in rules {
        let (fleet, mut nodes) = (Fleet::new(), Vec::new());
        for round in 0..8 {
            let node = fleet.node(&format!("node {round}"));
            // The first attempt fails soon enough to be retried before a later run replaces it.
            let most = if round == 0 { 500 } else { 4_000 };
            let (write, takes) = (node.writer(), Duration::from_millis(numbers.below(most)));
            let body = move |run: RunContext| {
                write(&run);
                async move {
                    tokio::select! {
                        () = sleep(takes) => {}
                        () = run.cancelled() => {}
                    }
                    if run.attempt() < 3 { Err("once more".into()) } else { Ok(()) }
                }
            };
            let schedule = Schedule::cron("*/2 * * * * *").expect("valid schedule");
            let job = node.cron.job("job", schedule, body).overlap(overlap).retries(Retries::times(1));
            let job = job.on_orphan(OnOrphan::Retry { max: 2 }).misfire(Misfire::FireAll { max: 5 });
            job.grace(secs(60)).register().expect("healthy store");
            let node = node.start();
            node.faulty.random(numbers.number(), 0.15);
            nodes.push(node);
            if round >= 3 {
                let at = usize::try_from(numbers.below(nodes.len() as u64)).expect("small number");
                nodes.remove(at).kill();
            }
            sleep(Duration::from_millis(numbers.below(60_000))).await;
            // Its outcome is irrelevant here.
            drop(nodes[0].cron.trigger("job").await);
        }
        nodes.iter().for_each(|node| node.faulty.heal());
        sleep(secs(120)).await;
        fleet.log.assert_each_once();
        let starts = fleet.log.starts();
        let attempts: BTreeSet<_> = starts.iter().map(|start| (start.run, start.attempt)).collect();
        assert_eq!(attempts.len(), starts.len(), "{overlap:?}: an attempt was started twice: {starts:?}");
        assert!(starts.iter().any(|start| start.attempt > 1), "{overlap:?}: some attempts are retried");
        for node in nodes {
            tokio::time::timeout(secs(90), node.stop()).await.expect("ends");
        }
        // A candidate that was elected as it stopped gives the lock back in the background, long before its lease ends.
        sleep(Duration::from_millis(10)).await;
        assert_eq!(fleet.memory.held(), [], "{overlap:?}");
    }
}
