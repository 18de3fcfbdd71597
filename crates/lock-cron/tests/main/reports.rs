//! The reports of a failed run, to an observer and in the history.

use crate::fleet::{Fleet, secs};
use lock_core::LockFactory;
use lock_cron::{
    CronErrorKind, Retries, RunResult, Schedule, Scheduler,
    observer::{CronEvent, CronObserver},
};
use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex},
};

/// An error that has a cause, repeats the text of its cause, or names itself as its cause.
#[derive(Debug)]
enum Failure {
    Because(&'static str, Option<Box<Failure>>),
    Endless,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Because(text, _) => text,
            Self::Endless => "no end of it",
        })
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Because(_, cause) => cause.as_deref().map(|cause| cause as _),
            Self::Endless => Some(self),
        }
    }
}

fn because(text: &'static str, cause: Failure) -> Failure {
    Failure::Because(text, Some(Box::new(cause)))
}

fn alone(text: &'static str) -> Failure {
    Failure::Because(text, None)
}

/// Records starts and ends, one line each.
#[derive(Debug, Clone, Default)]
struct Heard {
    events: Arc<Mutex<Vec<String>>>,
}

impl CronObserver for Heard {
    fn on_event(&self, event: &CronEvent<'_>) {
        let line = match event {
            CronEvent::Started { run, attempt, lag, .. } => format!("{run} #{attempt}, {lag:?} late"),
            CronEvent::Ended { run, attempt, outcome, detail, retried, .. } => {
                format!("{run} #{attempt} {outcome}: {detail}; retried: {retried}")
            }
            _ => return,
        };
        self.events.lock().expect("not poisoned").push(line);
    }
}

/// Returns the reports of one instant, with one retry, and the details from the history, oldest first.
async fn told(fail: fn(u32) -> RunResult) -> (Heard, Vec<String>) {
    let (fleet, heard) = (Fleet::new(), Heard::default());
    let clock = fleet.clock.clone();
    let locks = LockFactory::builder(fleet.memory.clone()).clock(clock).build().expect("valid options");
    let cron = Scheduler::builder(locks, fleet.ledger.clone())
        .observer(heard.clone())
        .build()
        .expect("valid options");
    let once = Schedule::cron("1 0 1 1 *").expect("valid schedule");
    let job = cron.job("job", once, move |run| async move { fail(run.attempt()) });
    job.retries(Retries::times(1)).register().expect("in-memory store");
    cron.run_until(tokio::time::sleep(secs(70))).await.expect("clean shutdown");
    let history = cron.history("job", 9).await.expect("in-memory store");
    (heard, history.into_iter().rev().map(|attempt| attempt.detail).collect())
}

#[tokio::test(start_paused = true)]
async fn observer_receives_run_and_reason_of_a_failure() {
    let (heard, _) = told(|attempt| match attempt {
        1 => Err(because("no invoice was written", alone("disk full")).into()),
        _ => Ok(()),
    })
    .await;
    let events = heard.events.lock().expect("not poisoned").clone();
    let run = events[0].split_once(' ').expect("a line with words").0;
    assert_eq!(
        events[1..],
        [
            format!("{run} #1 failed: no invoice was written: disk full; retried: true"),
            format!("{run} #2, 0ns late"),
            format!("{run} #2 succeeded: ; retried: false"),
        ],
        "a retry is not late"
    );
}

#[tokio::test(start_paused = true)]
async fn history_has_each_cause_of_an_error_once() {
    let (heard, details) = told(|attempt| match attempt {
        1 => {
            let connect = because("connect: refused", alone("refused"));
            Err(because("the import failed", because("no rates", connect)).into())
        }
        _ => Err(Failure::Endless.into()),
    })
    .await;
    assert_eq!(details, ["the import failed: no rates: connect: refused", "no end of it"]);
    let last = heard.events.lock().expect("not poisoned").last().cloned();
    assert!(last.is_some_and(|line| line.ends_with("#2 failed: no end of it; retried: false")));
    let (_, details) = told(|_| Err(because("a cause", alone("x".repeat(5_000).leak())).into())).await;
    assert_eq!(details[0].chars().count(), 300);
}

#[tokio::test(start_paused = true)]
async fn node_without_the_job_can_only_read_its_history() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * *", secs(1)).await;
    tokio::time::sleep(secs(130)).await;
    let tool = fleet.node("tool").cron;
    let history = tool.history("job", 9).await.expect("healthy store");
    assert_eq!((history.len(), history), (2, running.cron.history("job", 9).await.unwrap()));
    assert_eq!(tool.history("job", 0).await.expect("an empty history").len(), 0);
    for error in [tool.next_runs("job", 1).await.unwrap_err(), tool.history("jop", 1).await.unwrap_err()] {
        assert_eq!(error.kind(), CronErrorKind::UnknownJob);
        assert!(error.to_string().contains("this node has not registered"), "{error}");
    }
}
