//! A node of a fleet that runs one job.

use super::{Failure, Orders};
use crate::{fenced::FencedTable, line::say};
use lock_core::LockFactory;
use lock_cron::{
    OnOrphan, RunContext, RunResult, Schedule, Scheduler,
    observer::{CronEvent, CronObserver},
};
use lock_ledger::{GroupName, RunLedger};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
};

const JOB: &str = "job";

/// What the body does.
pub(super) struct Work {
    pub(super) takes: Duration,
    pub(super) adopt: u32,
    pub(super) fence: Option<PathBuf>,
}

#[derive(Debug)]
struct Says;

impl CronObserver for Says {
    fn on_event(&self, event: &CronEvent<'_>) {
        match event {
            CronEvent::Elected { .. } => say("leading"),
            CronEvent::Resigned { .. } => say("resigned"),
            _ => {}
        }
    }
}

pub(super) async fn run(
    (locks, ledger): (&LockFactory, Arc<dyn RunLedger>),
    lease: Duration,
    group: &str,
    schedule: &str,
    work: Work,
    orders: Orders,
) -> Result<(), Failure> {
    let builder = Scheduler::builder(locks.clone(), ledger.clone())
        .group(group)
        .leadership_lease(lease)
        .run_lease(lease);
    let cron = builder.observer(Says).build()?;
    let on_orphan = if work.adopt == 0 { OnOrphan::Skip } else { OnOrphan::Retry { max: work.adopt } };
    let (work, in_group) = (Arc::new(work), GroupName::new(group)?);
    let body = move |run: RunContext| {
        let (work, at) = (work.clone(), ledger.server_now(&in_group).unwrap_or_default().as_micros());
        say(format_args!(
            "start run={} at={at} token={} attempt={}",
            run.id(),
            run.fencing_token(),
            run.attempt()
        ));
        async move { body(&run, &work).await }
    };
    let job = cron.job(JOB, Schedule::cron(schedule)?, body).on_orphan(on_orphan);
    // So that its last words are heard, also when it is cancelled.
    job.cancel_grace(Duration::from_secs(5)).register()?;
    say("ready");
    let stop = Arc::new(Notify::new());
    let obeying = tokio::spawn(obey(cron.clone(), orders, stop.clone()));
    let mut terminate = signal(SignalKind::terminate())?;
    let ended = cron.run_until(async {
        tokio::select! {
            () = stop.notified() => {}
            _ = terminate.recv() => {}
        }
    });
    ended.await?;
    obeying.abort();
    say("stopped");
    Ok(())
}

async fn body(run: &RunContext, work: &Work) -> RunResult {
    let table = match &work.fence {
        Some(file) => Some(FencedTable::open(file).await?),
        None => None,
    };
    let mut before = None;
    if let Some(table) = &table {
        before = table.read(run.fencing_token()).await?;
    }
    let cancelled = tokio::select! {
        // First: after a pause of the process, its sleep is over as well.
        biased;
        () = run.cancelled() => true,
        () = tokio::time::sleep(work.takes) => false,
    };
    say(format_args!("{} run={}", if cancelled { "cancelled" } else { "ended" }, run.id()));
    if let (Some(table), Some(before)) = (&table, before) {
        let written = table.write(run.fencing_token(), before + 1).await?;
        say(format_args!("write {}", if written { "done" } else { "stale" }));
    }
    if cancelled { Err("cancelled".into()) } else { Ok(()) }
}

async fn obey(cron: Scheduler, mut orders: Orders, stop: Arc<Notify>) {
    loop {
        let order = orders.next().await;
        let done = match order.split_once(' ').unwrap_or((&order, "")) {
            ("stop", _) => {
                stop.notify_one();
                Ok(())
            }
            ("pause", _) => cron.pause(JOB).await,
            ("resume", _) => cron.resume(JOB).await,
            ("trigger", _) => cron.trigger(JOB).await.map(|run| say(format_args!("triggered {run}"))),
            ("replace", schedule) => cron.replace(JOB, schedule).await,
            ("next", _) => cron.next_runs(JOB, 5).await.map(|runs| {
                let runs: Vec<_> = runs.iter().map(|run| run.as_millis().to_string()).collect();
                say(format_args!("next {}", runs.join(" ")));
            }),
            ("history", _) => cron.history(JOB, 100).await.map(|history| {
                for attempt in history.iter().rev() {
                    let (run, number, outcome) = (attempt.run, attempt.attempt, attempt.outcome);
                    say(format_args!("past run={run} attempt={number} token={} {outcome}", attempt.token));
                }
                say("past-end");
            }),
            (other, _) => {
                say(format_args!("unknown {other}"));
                Ok(())
            }
        };
        match done {
            Ok(()) => say("obeyed"),
            Err(error) => say(format_args!("refused {error:#}")),
        }
    }
}
