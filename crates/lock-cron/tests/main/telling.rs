//! What an observer, the log and the history are told of a run that fails.

use crate::fleet::{Fleet, secs};
use lock_core::LockFactory;
use lock_cron::{CronErrorKind, CronEvent, CronObserver, Retries, RunResult, Schedule, Scheduler};
use std::{
    error::Error,
    fmt, io,
    sync::{Arc, Mutex},
};

/// An error that names its cause, or tells it as well, or is its own.
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

/// What starts and ends, a line each; and the log.
#[derive(Debug, Clone, Default)]
struct Heard {
    events: Arc<Mutex<Vec<String>>>,
    log: Arc<Mutex<Vec<u8>>>,
}

impl CronObserver for Heard {
    fn observe(&self, _: &str, event: &CronEvent<'_>) {
        let line = match event {
            CronEvent::Started { run, attempt, lag, .. } => format!("{run} #{attempt}, {lag:?} late"),
            CronEvent::Ended { run, attempt, outcome, detail, again, .. } => {
                format!("{run} #{attempt} {outcome}: {detail}; again: {again}")
            }
            _ => return,
        };
        self.events.lock().expect("no test panics while it writes").push(line);
    }
}

impl io::Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.log.lock().expect("no test panics while it writes").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is told of one instant, with one retry, and the details in the history, the oldest first.
async fn told(fail: fn(u32) -> RunResult) -> (Heard, Vec<String>) {
    let (fleet, heard) = (Fleet::new(), Heard::default());
    let clock = fleet.clock.clone();
    let locks = LockFactory::builder(fleet.memory.clone()).clock(clock).build().expect("good options");
    let cron = Scheduler::builder(locks).observer(heard.clone()).build().expect("good options");
    let once = Schedule::cron("1 0 1 1 *").expect("a good schedule");
    let job = cron.job("job", once, move |run| async move { fail(run.attempt()) });
    job.retries(Retries::times(1)).register().await.expect("a store in memory");
    cron.run_until(tokio::time::sleep(secs(70))).await.expect("it ends well");
    let history = cron.history("job", 9).await.expect("a store in memory");
    (heard, history.into_iter().rev().map(|attempt| attempt.detail).collect())
}

const ALONE: &str = "LOCK_CRON_TEST_ALONE";

/// In a process of its own: a scoped subscriber does not hear of call sites that another thread reaches first.
#[test]
fn a_failure_says_which_run_and_why_to_the_observer_and_in_the_log() {
    if std::env::var_os(ALONE).is_some() {
        return look_at_the_log();
    }
    let alone = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "telling::a_failure_says_which_run_and_why_to_the_observer_and_in_the_log"])
        .env(ALONE, "yes")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert!(alone.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn look_at_the_log() {
    let writer = Heard::default();
    let log = writer.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let (heard, _) = told(|attempt| match attempt {
        1 => Err(because("no invoice was written", alone("disk full")).into()),
        _ => Ok(()),
    })
    .await;
    let events = heard.events.lock().expect("no test panics while it writes").clone();
    let run = events[0].split_once(' ').expect("a line of words").0;
    assert_eq!(
        events[1..],
        [
            format!("{run} #1 failed: no invoice was written: disk full; again: true"),
            format!("{run} #2, 0ns late"),
            format!("{run} #2 succeeded: ; again: false"),
        ],
        "the wait of a retry is not lateness"
    );
    let log = log.log.lock().expect("no test panics while it writes").clone();
    let log = String::from_utf8(log).expect("the log is text");
    let line = log.lines().find(|line| line.contains("run ended")).expect("a failure is logged");
    for word in [
        " WARN ",
        &format!("cron.run={run} cron.attempt=1"),
        "error=\"no invoice was written: disk full\"",
        "again=true",
    ] {
        assert!(line.contains(word), "{word} in {line}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_history_keeps_an_error_with_its_causes_each_once_and_never_without_end() {
    let (heard, details) = told(|attempt| match attempt {
        1 => {
            let connect = because("connect: refused", alone("refused"));
            Err(because("the import failed", because("no rates", connect)).into())
        }
        _ => Err(Failure::Endless.into()),
    })
    .await;
    assert_eq!(details, ["the import failed: no rates: connect: refused", "no end of it"]);
    let last = heard.events.lock().expect("no test panics while it writes").last().cloned();
    assert!(last.is_some_and(|line| line.ends_with("#2 failed: no end of it; again: false")));
    let (_, details) = told(|_| Err(because("a cause", alone("x".repeat(5_000).leak())).into())).await;
    assert_eq!(details[0].chars().count(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_the_job_finds_its_history_and_says_what_it_cannot_tell() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * *", secs(1)).await;
    tokio::time::sleep(secs(130)).await;
    let tool = fleet.node("tool").cron;
    let history = tool.history("job", 9).await.expect("a healthy fleet answers");
    assert_eq!((history.len(), history), (2, running.cron.history("job", 9).await.unwrap()));
    assert_eq!(tool.history("job", 0).await.expect("none is asked for").len(), 0);
    for error in [tool.next_runs("job", 1).await.unwrap_err(), tool.history("jop", 1).await.unwrap_err()] {
        assert_eq!(error.kind(), CronErrorKind::UnknownJob);
        assert!(error.to_string().contains("this node did not register"), "{error}");
    }
}
