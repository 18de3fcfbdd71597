//! A node of a fleet that runs one job, or the instances of a kind.

use super::Failure;
use crate::{
    fenced::FencedTable,
    line::{Order, Orders, Report, now},
};
use lock_core::{LockFactory, shutdown_signal};
use lock_cron::{
    CronError, Misfire, OnOrphan, Overlap, Placement, RunContext, RunResult, Schedule, Scheduler, UtcTime,
    observer::{CronEvent, CronObserver},
};
use lock_ledger::{GroupName, RunLedger};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::Notify;

const JOB: &str = "job";
const KIND: &str = "kind";

/// The work of the body.
pub(super) struct Work {
    pub(super) takes: Duration,
    pub(super) adopt: u32,
    pub(super) catch_up: Option<u32>,
    pub(super) max_running: Option<u32>,
    pub(super) pool: Option<u32>,
    pub(super) placement: Placement,
    pub(super) fence: Option<PathBuf>,
}

#[derive(Debug)]
struct Says;

impl CronObserver for Says {
    fn on_event(&self, event: &CronEvent<'_>) {
        match event {
            CronEvent::Elected { .. } => Report::Leading.say(),
            CronEvent::Resigned { .. } => Report::Resigned.say(),
            _ => {}
        }
    }
}

pub(super) async fn run(
    (locks, ledger): (&LockFactory, Arc<dyn RunLedger>),
    lease: Duration,
    group: &str,
    schedule: Option<&str>,
    work: Work,
    orders: Orders,
) -> Result<(), Failure> {
    let mut builder = Scheduler::builder(locks.clone(), ledger.clone())
        .group(group)
        .leadership_lease(lease)
        .run_lease(lease);
    if let Some(max) = work.max_running {
        builder = builder.max_running(max);
    }
    let cron = builder.observer(Says).build()?;
    let on_orphan = if work.adopt == 0 { OnOrphan::Skip } else { OnOrphan::Retry { max: work.adopt } };
    let (misfire, overlap) = match work.catch_up {
        Some(max) => (Misfire::FireAll { max }, Overlap::Allow { max }),
        None => (Misfire::FireOnce, Overlap::Skip),
    };
    let (placement, pool) = (work.placement, work.pool);
    let (work, in_group) = (Arc::new(work), GroupName::new(group)?);
    let body = move |run: RunContext| {
        let (work, at) = (work.clone(), ledger.server_now(&in_group).unwrap_or_default().as_micros());
        let (job, id, token) = (run.job().to_string(), run.id().to_string(), run.fencing_token().get());
        Report::Start { job, run: id, at, token, attempt: run.attempt(), began: now() }.say();
        async move { body(&run, &work).await }
    };
    let job = match schedule {
        Some(schedule) => cron.job(JOB, Schedule::cron(schedule)?, body),
        None => cron.kind(KIND, body),
    };
    let job = match pool {
        Some(max) => job.pool("pool", max),
        None => job,
    };
    let job = job.placement(placement).on_orphan(on_orphan).misfire(misfire).overlap(overlap);
    // So that its last report is sent even if it is cancelled.
    job.cancel_grace(Duration::from_secs(5)).register()?;
    Report::Ready.say();
    let stop = Arc::new(Notify::new());
    let obeying = tokio::spawn(obey(cron.clone(), orders, stop.clone()));
    let terminated = shutdown_signal()?;
    let ended = cron.run_until(async {
        tokio::select! {
            () = stop.notified() => {}
            () = terminated => {}
        }
    });
    ended.await?;
    obeying.abort();
    Report::Stopped.say();
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
        // Checked first: after a suspension of the process, the sleep has ended as well.
        biased;
        () = run.cancelled() => true,
        () = tokio::time::sleep(work.takes) => false,
    };
    let (id, token, at) = (run.id().to_string(), run.fencing_token().get(), now());
    let job = run.job().to_string();
    if cancelled {
        Report::Cancelled { job, run: id, token, at }.say();
    } else {
        Report::Ended { job, run: id, token, at }.say();
    }
    if let (Some(table), Some(before)) = (&table, before) {
        let accepted = table.write(run.fencing_token(), before + 1).await?;
        Report::Write { accepted }.say();
    }
    if cancelled { Err("cancelled".into()) } else { Ok(()) }
}

async fn obey(cron: Scheduler, mut orders: Orders, stop: Arc<Notify>) {
    loop {
        let done = match orders.next().await {
            Order::Stop => {
                stop.notify_one();
                Ok(())
            }
            Order::Pause => cron.pause(JOB).await,
            Order::Resume => cron.resume(JOB).await,
            Order::Trigger => {
                cron.trigger(JOB).await.map(|run| Report::Triggered { run: run.to_string() }.say())
            }
            Order::Replace { schedule } => cron.replace(JOB, &schedule).await,
            Order::Next => cron.next_runs(JOB, 5).await.map(|runs| {
                Report::Next { runs: runs.iter().map(|run| run.as_millis()).collect() }.say();
            }),
            Order::History => cron.history(JOB, 100).await.map(|history| {
                for past in history.iter().rev() {
                    let (run, outcome) = (past.run.to_string(), past.outcome.to_string());
                    Report::Past { run, attempt: past.attempt, token: past.token.get(), outcome }.say();
                }
            }),
            Order::Add { id, schedule } => add(&cron, &id, &schedule).await,
            Order::Once { id, at } => cron.once(KIND, &id, UtcTime::from_millis(at), &()).await.map(drop),
            Order::Remove { id } => cron.remove(KIND, &id).await.map(drop),
            Order::Forget { id } => cron.forget(KIND, &id).await.map(drop),
            other => {
                Report::Refused { why: format!("a node of a fleet does not know the order {other:?}") }.say();
                continue;
            }
        };
        match done {
            Ok(()) => Report::Obeyed.say(),
            Err(error) => Report::Refused { why: format!("{error:#}") }.say(),
        }
    }
}

async fn add(cron: &Scheduler, id: &str, schedule: &str) -> Result<(), CronError> {
    cron.add(KIND, id, Schedule::cron(schedule)?, &()).await.map(drop)
}
