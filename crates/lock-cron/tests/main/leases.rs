//! The claim as the lease of a run: its renewal, its cost, and bodies that end late.

use crate::fleet::{Fleet, secs};
use lock_core::{LockFactory, backend::BackendErrorKind, clock::TestClock};
use lock_cron::{
    CronErrorKind, OnOrphan, Overlap, Retries, RunContext, Schedule, Scheduler, observer::SkipReason,
};
use lock_ledger::RunOutcome;
use lock_testkit::{Fault, FaultyBackend, Op};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn run_costs_two_requests_and_no_lock() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * * *", secs(0)).await;
    sleep(Duration::from_millis(500)).await;
    let calls = |op| running.faulty.calls(op);
    let before = (calls(Op::Claim), calls(Op::EndRun), calls(Op::Acquire), calls(Op::Release));
    sleep(secs(10)).await;
    let after = (calls(Op::Claim), calls(Op::EndRun), calls(Op::Acquire), calls(Op::Release));
    assert_eq!(after, (before.0 + 10, before.1 + 10, before.2, before.3));
}

#[tokio::test(start_paused = true)]
async fn waiting_run_costs_few_requests() {
    for overlap in [Overlap::QueueOne, Overlap::CancelPrevious] {
        let fleet = Fleet::new();
        let node = fleet.node("a");
        // Ends an hour after it was asked to.
        let body = |run: RunContext| async move {
            run.cancelled().await;
            sleep(secs(3600)).await;
            Ok(())
        };
        let job = node.cron.job("job", Schedule::cron("* * * * *").expect("valid schedule"), body);
        job.overlap(overlap).cancel_grace(secs(7200)).register().expect("valid job");
        let running = node.start();
        sleep(secs(125)).await;
        let before = running.faulty.calls(Op::Claim);
        sleep(secs(50)).await;
        let polls = running.faulty.calls(Op::Claim) - before;
        assert!((8..=12).contains(&polls), "{overlap:?}: {polls} in 50 s");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_renewal_is_not_a_loss() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "1 0 1 1 *", secs(100)).await;
    sleep(secs(65)).await;
    running.faulty.script(Op::RenewRuns, [Fault::LoseRequest, Fault::ApplyThenLose, Fault::LoseRequest]);
    sleep(secs(120)).await;
    let outcomes: Vec<_> = running.history().await.into_iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn success_within_the_grace_counts() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let ends = Arc::new(AtomicU32::new(0));
    let ended = ends.clone();
    let body = move |_| {
        let ended = ended.clone();
        async move {
            sleep(Duration::from_millis(10_100)).await;
            ended.fetch_add(1, SeqCst);
            Ok(())
        }
    };
    let job = node.cron.job("job", Schedule::cron("1 0 1 1 *").expect("valid schedule"), body);
    job.timeout(secs(10)).retries(Retries::times(3)).register().expect("valid job");
    let running = node.start();
    sleep(secs(180)).await;
    let history = running.history().await;
    assert_eq!((ends.load(SeqCst), history.len(), history[0].outcome), (1, 1, RunOutcome::Succeeded));
    assert_eq!(history[0].detail, "after it was told to stop: timed out after 10s");
}

#[tokio::test(start_paused = true)]
async fn reset_restarts_a_job_after_a_clock_was_ahead() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * *", secs(0)).await;
    sleep(secs(90)).await;
    let year = 365 * 86_400;
    fleet.clock.step_wall(year * 1_000_000);
    sleep(secs(3)).await;
    fleet.clock.step_wall(-year * 1_000_000);
    let before = fleet.log.starts().len();
    sleep(secs(600)).await;
    assert_eq!(fleet.log.starts().len(), before, "nothing starts");
    assert!(fleet.log.ahead() >= 9, "reported every minute: {}", fleet.log.ahead());
    let view = running.cron.list().await.expect("healthy store").remove(0);
    let next = view.next_run.expect("a next run");
    let in_a_year = TestClock::WALL_AT_START + secs(300 * 86_400);
    assert!(next > in_a_year && view.ahead_by > secs(300 * 86_400), "{view:?}");
    running.cron.reset("job").await.expect("healthy store");
    sleep(secs(120)).await;
    assert_eq!(fleet.log.starts().len(), before + 2);
    let told = fleet.log.ahead();
    sleep(secs(300)).await;
    assert_eq!(fleet.log.ahead(), told);
    let view = running.cron.list().await.expect("healthy store").remove(0);
    assert_eq!(view.ahead_by, secs(0));
}

#[tokio::test(start_paused = true)]
async fn failed_registrations_are_not_repeated_in_parallel() {
    for known in [false, true] {
        let fleet = Fleet::new();
        let node = fleet.node("a");
        node.job("job", "@yearly", secs(0)).register().expect("valid job");
        let fault = Fault::FailBefore(lock_core::backend::BackendErrorKind::Unavailable);
        if !known {
            node.faulty.always(Op::Register, fault);
        }
        let running = node.start();
        sleep(secs(30)).await;
        running.faulty.always(Op::Register, fault);
        sleep(secs(1_800)).await;
        let before = running.faulty.calls(Op::Register);
        sleep(secs(60)).await;
        let calls = running.faulty.calls(Op::Register) - before;
        assert!(calls <= if known { 1 } else { 120 }, "{calls} in a minute; registered before: {known}");
        assert!(calls >= 1);
    }
}

#[tokio::test(start_paused = true)]
async fn data_loss_is_reported_within_a_minute() {
    let fleet = Fleet::new();
    let _running = fleet.simple("a", "@yearly", secs(0)).await;
    sleep(secs(70)).await;
    assert_eq!(fleet.log.data_lost(), 0);
    fleet.lose_data();
    sleep(secs(70)).await;
    assert_eq!(fleet.log.data_lost(), 1);
}

#[tokio::test(start_paused = true)]
async fn triggers_are_bounded_expire_and_can_be_cancelled() {
    let fleet = Fleet::new();
    let gone = fleet.node("gone");
    gone.job("gone", "@yearly", secs(0)).register().expect("valid job");
    for _ in 0..100 {
        gone.cron.trigger("gone").await.expect("below the limit");
    }
    let error = gone.cron.trigger("gone").await.unwrap_err();
    assert_eq!(error.kind(), CronErrorKind::TooManyTriggers);
    let running = fleet.simple("a", "@yearly", secs(0)).await;
    sleep(secs(1)).await;
    running.cron.trigger("job").await.expect("room for another job");
    sleep(secs(1_000)).await;
    assert_eq!(fleet.log.starts().len(), 1);
    let withdrawn = gone.cron.trigger("gone").await.expect("expired triggers make room");
    assert!(gone.cron.cancel_trigger(withdrawn).await.expect("healthy store"));
    assert!(!gone.cron.cancel_trigger(withdrawn).await.expect("healthy store"));
    let id = gone.cron.trigger("gone").await.expect("there is room");
    sleep(secs(601)).await;
    let _back = gone.start();
    sleep(secs(5)).await;
    assert_eq!(fleet.log.starts().len(), 1, "expired triggers do not start");
    assert_eq!(fleet.log.skipped(SkipReason::Expired), 1);
    let entry = running.cron.history("gone", 1).await.expect("healthy store").remove(0);
    assert_eq!((entry.run, &*entry.detail), (id, "the trigger expired"));
}

/// The body of a lost attempt uses its whole grace while the same node starts the next attempt.
#[tokio::test(start_paused = true)]
async fn attempt_after_a_loss_on_the_same_node_is_renewed() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let write = node.writer();
    let body = move |run: RunContext| {
        write(&run);
        async move {
            sleep(secs(70)).await;
            Ok(())
        }
    };
    let job = node.cron.job("job", Schedule::cron("1 0 1 1 *").expect("valid schedule"), body);
    job.on_orphan(OnOrphan::Retry { max: 5 }).cancel_grace(secs(20)).register().expect("valid job");
    let running = node.start();
    sleep(secs(65)).await;
    running.faulty.always(Op::RenewRuns, Fault::FailBefore(BackendErrorKind::Unavailable));
    sleep(secs(36)).await;
    running.faulty.heal();
    sleep(secs(600)).await;
    let outcomes: Vec<_> = running.history().await.iter().map(|a| (a.attempt, a.outcome)).collect();
    assert_eq!(
        outcomes,
        [(1, RunOutcome::Abandoned), (2, RunOutcome::Succeeded)],
        "{:#?}",
        fleet.log.starts()
    );
}

#[tokio::test(start_paused = true)]
async fn hanging_renewal_is_not_a_loss_with_a_long_leadership() {
    let fleet = Fleet::new();
    let faulty = FaultyBackend::new(fleet.memory.clone());
    let locks =
        LockFactory::builder(faulty.clone()).clock(fleet.clock.clone()).build().expect("valid options");
    let builder = Scheduler::builder(locks, faulty.ledger(fleet.ledger.clone()))
        .leadership_lease(secs(3600))
        .run_lease(secs(30));
    let cron = builder.build().expect("valid options");
    let body = |_| async {
        sleep(secs(100)).await;
        Ok(())
    };
    let schedule = Schedule::cron("1 0 1 1 *").expect("valid schedule");
    cron.job("job", schedule, body).register().expect("valid job");
    faulty.next(Op::RenewRuns, Fault::Hang);
    cron.run_until(sleep(secs(200))).await.expect("clean shutdown");
    let history = cron.history("job", 9).await.expect("healthy store");
    let outcomes: Vec<_> = history.into_iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [RunOutcome::Succeeded]);
}
