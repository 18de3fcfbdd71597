//! How do I run a scheduled job once in the whole fleet?
//!
//! Every process runs this same program, and the runs are spread over the processes. Each run is claimed in the
//! store, so each scheduled time starts once, in one of them. Here the store is in memory, and the job runs every
//! second.

use lock_core::{LockFactory, MemoryBackend};
use lock_cron::{MemoryLedger, Misfire, Overlap, Schedule, Scheduler};
use std::{error::Error, time::Duration};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // In production, `let redis = RedisBackend::connect("redis://…").await?` and
    // `Scheduler::builder(LockFactory::new(redis.clone()), redis)`.
    let locks = LockFactory::new(MemoryBackend::new());
    let cron = Scheduler::builder(locks, MemoryLedger::new()).group("billing").build()?;

    let (done, mut runs) = mpsc::unbounded_channel();
    // At 2 a.m.: `Schedule::cron("0 2 * * *")?.in_tz("Europe/Berlin")?`.
    cron.job("invoices", Schedule::cron("* * * * * *")?, move |run| {
        let done = done.clone();
        async move {
            println!("invoices for {}, attempt {}", run.scheduled_at(), run.attempt());
            done.send(run.id())?; // an error fails the run and is stored in its history
            Ok(())
        }
    })
    .overlap(Overlap::Skip)
    .misfire(Misfire::FireOnce)
    .timeout(Duration::from_secs(600))
    .register()?;

    // In production: `run_until(lock_core::shutdown_signal()?)`.
    let two_runs = async {
        for _ in 0..2 {
            runs.recv().await;
        }
    };
    cron.run_until(two_runs).await?;

    for attempt in cron.history("invoices", 10).await? {
        println!("run {} {}", attempt.run, attempt.outcome);
    }
    Ok(())
}
