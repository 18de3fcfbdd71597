//! The log of a scheduler, and the span of an attempt.

use lock_core::{LockFactory, MemoryBackend, clock::TestClock};
use lock_cron::{Attempt, MemoryLedger, Retries, Schedule, Scheduler};
use lock_testkit::ThreadLog;
use std::{sync::Arc, time::Duration};
use tracing::level_filters::LevelFilter;

/// Creates a scheduler in virtual time, and the log of this thread.
fn logged() -> (Scheduler, ThreadLog) {
    let log = ThreadLog::listen(LevelFilter::INFO);
    let clock = Arc::new(TestClock::new());
    let memory = MemoryBackend::with_clock(clock.clone());
    let locks = LockFactory::builder(memory).clock(clock.clone()).build().expect("valid options");
    let cron = Scheduler::builder(locks, MemoryLedger::with_clock(clock)).build().expect("valid options");
    (cron, log)
}

#[tokio::test(start_paused = true)]
async fn failures_are_warnings_and_overlaps_are_not() {
    let (cron, log) = logged();
    let once = Schedule::cron("1 0 1 1 *").expect("valid schedule");
    let job = cron.job("job", once, |_| async {
        let cause = "x".parse::<u8>().expect_err("not a number");
        Err(std::io::Error::other(cause).into())
    });
    job.register().expect("in-memory store");
    let job = cron.job("slow", Schedule::cron("* * * * * *").expect("valid schedule"), |_| async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        Ok(())
    });
    job.register().expect("in-memory store");
    let past = Schedule::cron("@at 2020-01-01T00:00:00Z").expect("valid schedule");
    cron.job("past", past, |_| async { Ok(()) }).register().expect("valid job");
    cron.run_until(tokio::time::sleep(Duration::from_secs(70))).await.expect("clean shutdown");
    let run = cron.history("job", 1).await.expect("in-memory store")[0].run;
    let skips = cron.history("slow", 100).await.expect("in-memory store");
    assert!(skips.iter().any(|attempt| attempt.outcome == lock_cron::RunOutcome::Skipped));
    let log = log.text();
    assert!(!log.contains("overlap"), "{log}");
    let never: Vec<_> = log.lines().filter(|line| line.contains("no upcoming run times")).collect();
    assert!(matches!(never[..], [line] if line.contains("cron.job=past")), "{never:?}");
    let line = log.lines().find(|line| line.contains("run did not succeed")).expect("a failure is logged");
    let which = format!("cron.job=job cron.run={run} cron.attempt=1");
    for word in [" WARN ", &which, "error=\"invalid digit found in string\"", "retried=false"] {
        assert!(line.contains(word), "{word} in {line}");
    }
}

#[tokio::test(start_paused = true)]
async fn body_runs_in_the_span_of_its_attempt() {
    let (cron, log) = logged();
    let once = Schedule::cron("1 0 1 1 *").expect("valid schedule");
    let job = cron.job("job", once, |run| async move {
        tracing::info!("in the body");
        if run.attempt() == 1 { Err("no".into()) } else { Ok(()) }
    });
    job.retries(Retries::times(1)).register().expect("in-memory store");
    cron.run_until(tokio::time::sleep(Duration::from_secs(70))).await.expect("clean shutdown");
    let history = cron.history("job", 2).await.expect("in-memory store");
    let log = log.text();
    let lines: Vec<_> = log.lines().filter(|line| line.ends_with("in the body")).collect();
    assert_eq!(lines.len(), history.len(), "{log}");
    for (attempt, line) in history.iter().rev().zip(&lines) {
        let Attempt { run, attempt, token, .. } = attempt;
        let span = format!(
            "cron.run{{cron.group=\"default\" cron.job=job cron.run={run} cron.attempt={attempt} cron.token={token}}}"
        );
        assert!(line.contains(&span), "{span} in {line}");
    }
    let failure = log.lines().find(|line| line.contains("run did not succeed")).expect("a failure");
    assert!(failure.contains("cron.outcome=\"failed\"}"), "the span has the outcome: {failure}");
}
