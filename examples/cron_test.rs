//! How do I test a schedule without waiting for it?
//!
//! With tokio's paused time and a clock that follows it, a night passes in a moment. Your own tests can look like
//! this.

use lock_core::{
    LockFactory, MemoryBackend,
    clock::{Clock, TestClock},
};
use lock_cron::{MemoryLedger, Schedule, Scheduler};
use std::{
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

// In a test: `#[tokio::test(start_paused = true)]`.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(TestClock::new()); // 2026-01-01T00:00:00Z
    let store = MemoryBackend::with_clock(clock.clone());
    let locks = LockFactory::builder(store).clock(clock.clone()).build()?;
    let cron = Scheduler::builder(locks, MemoryLedger::with_clock(clock.clone())).build()?;

    let runs = Arc::new(Mutex::new(Vec::new()));
    let seen = runs.clone();
    let nightly = Schedule::cron("30 2 * * *")?.in_tz("Europe/Berlin")?;
    cron.job("nightly", nightly, move |run| {
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(run.scheduled_at());
        async { Ok(()) }
    })
    .register()?;

    let night = Duration::from_secs(6 * 60 * 60);
    cron.run_until(tokio::time::sleep(night)).await?;

    let runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{} run until {}", runs.len(), clock.wall());
    assert_eq!(runs.len(), 1, "once a night");

    // Without running the job: on 29 March there is no 2:30 at night, and it runs right after the gap.
    let nightly = Schedule::cron("30 2 * * *")?.in_tz("Europe/Berlin")?;
    let year: Vec<_> = nightly.after(runs[0]).take(364).map(|run| run.to_string()).collect();
    let spring = year.iter().find(|run| run.starts_with("2026-03-29"));
    println!("in the night without 2:30: {}", spring.ok_or("a run in that night")?);
    Ok(())
}
