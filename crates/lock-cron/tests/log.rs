//! What the log says of a run that fails. Alone in its process: a scoped subscriber does not hear of call sites that another
//! thread reaches first.

use lock_core::{LockFactory, MemoryBackend, TestClock};
use lock_cron::{MemoryLedger, Schedule, Scheduler};
use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panicked").push_str(std::str::from_utf8(bytes).expect("a line of text"));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_logged_with_its_cause_and_a_skip_for_overlap_only_for_debugging() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let clock = Arc::new(TestClock::new());
    let memory = MemoryBackend::with_clock(clock.clone());
    let locks = LockFactory::builder(memory).clock(clock.clone()).build().expect("good options");
    let cron = Scheduler::builder(locks, MemoryLedger::with_clock(clock)).build().expect("good options");
    let once = Schedule::cron("1 0 1 1 *").expect("a good schedule");
    let job = cron.job("job", once, |_| async {
        let cause = "x".parse::<u8>().expect_err("no number");
        Err(std::io::Error::other(cause).into())
    });
    job.register().expect("a store in memory");
    let job = cron.job("slow", Schedule::cron("* * * * * *").expect("a schedule"), |_| async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        Ok(())
    });
    job.register().expect("a store in memory");
    let past = Schedule::cron("@at 2020-01-01T00:00:00Z").expect("a schedule");
    cron.job("past", past, |_| async { Ok(()) }).register().expect("it may be registered");
    cron.run_until(tokio::time::sleep(Duration::from_secs(70))).await.expect("it ends well");
    let run = cron.history("job", 1).await.expect("a store in memory")[0].run;
    let skips = cron.history("slow", 100).await.expect("a store in memory");
    assert!(skips.iter().any(|attempt| attempt.outcome == lock_cron::RunOutcome::Skipped));
    let log = log.0.lock().expect("nobody panicked").clone();
    assert!(!log.contains("Overlap"), "{log}");
    let never: Vec<_> = log.lines().filter(|line| line.contains("no instant left")).collect();
    assert!(matches!(never[..], [line] if line.contains("cron.job=past")), "{never:?}");
    let line = log.lines().find(|line| line.contains("run ended")).expect("a failure is logged");
    let which = format!("cron.job=job cron.run={run} cron.attempt=1");
    for word in [" WARN ", &which, "error=\"invalid digit found in string\"", "again=false"] {
        assert!(line.contains(word), "{word} in {line}");
    }
}
