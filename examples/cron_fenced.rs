//! How do I keep a run that lost its lease from overwriting the work of its successor?
//!
//! A run is started once, but a process that was suspended past its lease may still write. The resource refuses that
//! write by the run's fencing token: later runs and attempts have higher tokens.

use lock_core::{FencingToken, LockFactory, MemoryBackend};
use lock_cron::{MemoryLedger, OnOrphan, RunContext, Schedule, Scheduler};
use std::{
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::mpsc;

/// A row. Its method is one SQL statement: `update report set text = $text, fence = $t where id = 1 and fence <= $t`.
#[derive(Default)]
struct Report(Mutex<(Option<FencingToken>, String)>);

impl Report {
    fn write(&self, token: FencingToken, text: &str) -> bool {
        let mut row = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = row.0.is_none_or(|fence| fence <= token);
        if fresh {
            *row = (Some(token), text.to_owned());
        }
        fresh
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockFactory::new(MemoryBackend::new());
    let cron = Scheduler::builder(locks, MemoryLedger::new()).group("reports").build()?;
    let (report, (say, mut said)) = (Arc::new(Report::default()), mpsc::unbounded_channel());
    let job = cron.job("report", Schedule::cron("* * * * * *")?, move |run: RunContext| {
        let (report, say) = (report.clone(), say.clone());
        async move {
            let written = report.write(run.fencing_token(), &run.scheduled_at().to_string());
            say.send((run.fencing_token(), written, report))?;
            Ok(())
        }
    });
    // If the node of a run dies, the run is started again with a higher token.
    job.on_orphan(OnOrphan::Retry { max: 1 }).register()?;

    let mut tokens = Vec::new();
    let two_runs = async {
        while let Some((token, written, report)) = said.recv().await {
            println!("run with token {token}: {}", answer(written));
            if let Some(zombie) = tokens.last().copied() {
                // The first run wakes up long after its lease.
                println!("zombie with token {zombie}: {}", answer(report.write(zombie, "old")));
                return;
            }
            tokens.push(token);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), cron.run_until(two_runs)).await??;
    Ok(())
}

fn answer(written: bool) -> &'static str {
    if written { "written" } else { "refused as stale" }
}
