//! Bodies: their context, their failures, and their results.

use crate::fleet::{Fleet, Running, secs};
use lock_cron::{Jitter, OnOrphan, Placement, Retries, Schedule};
use lock_ledger::RunOutcome;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn failed_run_is_retried_with_rising_waits_and_tokens() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let write = node.writer();
    let body = move |run: lock_cron::RunContext| {
        write(&run);
        async move { if run.attempt() < 4 { Err(format!("no. {}", run.attempt()).into()) } else { Ok(()) } }
    };
    let job = node.cron.job("job", Schedule::cron("* * * * *").unwrap(), body);
    job.retries(Retries::times(3)).register().unwrap();
    let running = node.start();
    sleep(secs(90)).await;
    let starts = fleet.log.starts();
    assert_eq!(starts.iter().map(|start| start.attempt).collect::<Vec<_>>(), [1, 2, 3, 4]);
    for (pair, whole) in starts.windows(2).zip([1_000, 2_000, 4_000]) {
        assert_eq!(pair[0].run, pair[1].run, "same run");
        assert!(pair[1].token > pair[0].token);
        let wait = pair[1].at - pair[0].at;
        assert!(wait >= whole * 3 / 4 && wait <= whole + 20, "{wait} ms of {whole}");
    }
    let history = running.history().await;
    let ends: Vec<_> = history.iter().map(|attempt| (attempt.outcome, attempt.detail.as_str())).collect();
    let failed = RunOutcome::Failed;
    assert_eq!(ends, [(failed, "no. 1"), (failed, "no. 2"), (failed, "no. 3"), (RunOutcome::Succeeded, "")]);
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_body_only_fails_its_run() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    node.job("other", "* * * * *", secs(1)).register().unwrap();
    let job = node.cron.job("job", Schedule::cron("* * * * *").unwrap(), |run| async move {
        assert!(run.attempt() > 1, "out of {}", "order");
        Ok(())
    });
    job.retries(Retries::times(1)).register().unwrap();
    let running = node.start();
    sleep(secs(125)).await;
    let history = running.history().await;
    assert_eq!(history[0].outcome, RunOutcome::Panicked);
    assert!(history[0].detail.starts_with("out of order"), "{history:?}");
    assert_eq!(Running::count(&history, RunOutcome::Succeeded), 2);
    assert_eq!(fleet.log.starts().len(), 2, "the other job is not affected");
}

#[tokio::test(start_paused = true)]
async fn body_past_its_timeout_is_cancelled_then_dropped() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let told = Arc::new(AtomicU32::new(0));
    let heard = told.clone();
    let body = move |run: lock_cron::RunContext| {
        let told = told.clone();
        async move {
            run.cancelled().await;
            told.fetch_add(1, SeqCst);
            std::future::pending().await
        }
    };
    let job = node.cron.job("job", Schedule::cron("* * * * *").unwrap(), body);
    job.timeout(secs(10)).cancel_grace(secs(3)).register().unwrap();
    let running = node.start();
    sleep(secs(72)).await;
    assert_eq!((heard.load(SeqCst), running.history().await.len()), (1, 0));
    sleep(secs(2)).await;
    let history = running.history().await;
    assert_eq!(history[0].outcome, RunOutcome::TimedOut);
    assert_eq!(history[0].ended.since(history[0].started).as_secs(), 13);
}

#[tokio::test(start_paused = true)]
async fn run_of_a_dead_node_is_abandoned_or_repeated() {
    for on_orphan in [OnOrphan::Skip, OnOrphan::Retry { max: 1 }] {
        let fleet = Fleet::new();
        let node = |name: &'static str| {
            let fleet = fleet.clone();
            async move {
                let node = fleet.node(name);
                // Due once, in the first minute.
                let job = node.job("job", "1 0 1 1 *", secs(100)).placement(Placement::Leader);
                job.on_orphan(on_orphan).register().unwrap();
                node.start()
            }
        };
        let a = node("a").await;
        sleep(secs(1)).await;
        let b = node("b").await;
        sleep(secs(70)).await;
        assert_eq!(fleet.log.starts().len(), 1);
        a.kill();
        sleep(secs(200)).await;
        let history = b.history().await;
        let outcomes: Vec<_> = history.iter().map(|attempt| (attempt.attempt, attempt.outcome)).collect();
        assert_eq!(outcomes[0], (1, RunOutcome::Abandoned), "{on_orphan:?}");
        let starts = fleet.log.starts();
        match on_orphan {
            OnOrphan::Skip => assert_eq!((outcomes.len(), starts.len()), (1, 1)),
            _ => {
                assert_eq!(outcomes[1..], [(2, RunOutcome::Succeeded)]);
                assert!(starts[1].token > starts[0].token && starts[1].catch_up, "{starts:?}");
            }
        }
        assert_eq!(fleet.log.orphans(), 1);
        fleet.log.assert_each_once();
    }
}

#[tokio::test(start_paused = true)]
async fn body_without_its_lease_is_cancelled_and_not_recorded() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let lost = Arc::new(AtomicU32::new(0));
    let heard = lost.clone();
    let body = move |run: lock_cron::RunContext| {
        let lost = lost.clone();
        async move {
            run.lost().await;
            lost.fetch_add(u32::from(!run.is_held()), SeqCst);
            Ok(())
        }
    };
    node.cron.job("job", Schedule::cron("1 0 1 1 *").unwrap(), body).register().unwrap();
    let running = node.start();
    sleep(secs(65)).await;
    running.faulty.always(lock_testkit::Op::RenewRuns, lock_testkit::Fault::LoseRequest);
    sleep(secs(30)).await;
    assert_eq!(heard.load(SeqCst), 1);
    let history = running.history().await;
    assert_eq!((history.len(), history[0].outcome), (1, RunOutcome::Abandoned));
}

#[tokio::test(start_paused = true)]
async fn jitter_delays_the_body_but_not_the_run_id() {
    for jitter in [Jitter::Fixed(secs(20)), Jitter::Random(secs(20))] {
        let fleet = Fleet::new();
        let node = fleet.node("a");
        node.job("job", "* * * * *", secs(0)).jitter(jitter).register().unwrap();
        let _running = node.start();
        sleep(secs(10 * 60 + 30)).await;
        let starts = fleet.log.starts();
        assert_eq!(fleet.log.instants(), (1..=10).map(|minute| minute * 60).collect::<Vec<_>>());
        let mut waits: Vec<_> =
            starts.iter().map(|start| start.at - start.run.scheduled().unwrap().as_millis()).collect();
        assert!(waits.iter().all(|wait| *wait <= 20_010), "{waits:?}");
        waits.sort_unstable();
        let spread = waits[waits.len() - 1] - waits[0];
        match jitter {
            Jitter::Fixed(_) => assert!(spread < 20, "{waits:?}"),
            _ => assert!(spread > 1_000, "{waits:?}"),
        }
    }
}

/// An error that panics when it is formatted or dropped.
struct Spiteful;

impl std::fmt::Debug for Spiteful {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("planned panic in Debug")
    }
}

impl std::fmt::Display for Spiteful {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("planned panic in Display")
    }
}

impl std::error::Error for Spiteful {}

impl Drop for Spiteful {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("no end")
        }
    }
}

#[tokio::test(start_paused = true)]
async fn panics_of_errors_and_dropped_bodies_do_not_block() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let every_minute = || Schedule::cron("* * * * *").unwrap();
    let job = node.cron.job("error", every_minute(), |_| async { Err(Spiteful.into()) });
    job.register().unwrap();
    let job = node.cron.job("body", every_minute(), |_| async {
        let _kept = Spiteful;
        std::future::pending().await
    });
    job.timeout(secs(10)).cancel_grace(secs(1)).register().unwrap();
    let running = node.start();
    sleep(secs(140)).await;
    for (job, outcome) in [("error", RunOutcome::Panicked), ("body", RunOutcome::TimedOut)] {
        let outcomes: Vec<_> = running.cron.history(job, 9).await.unwrap();
        let outcomes: Vec<_> = outcomes.into_iter().map(|attempt| attempt.outcome).collect();
        assert_eq!(outcomes, [outcome; 2], "{job}: every minute");
    }
    tokio::time::timeout(secs(60), running.stop()).await.expect("the scheduler ends");
    assert_eq!(fleet.memory.held(), [], "no open run is left");
}
