//! Options at the ends of their ranges, and the time that a shutdown takes.

use crate::fleet::{Fleet, Running, secs};
use lock_core::LockFactory;
use lock_cron::{
    CronErrorKind, Jitter, JobBuilder, Misfire, Overlap, Retries, Schedule, Scheduler, SchedulerBuilder,
};
use std::time::Duration;
use tokio::time::sleep;

type OfScheduler = fn(SchedulerBuilder, Duration) -> SchedulerBuilder;
type OfJob = fn(JobBuilder, Duration) -> JobBuilder;

const OF_SCHEDULERS: [(&str, OfScheduler); 3] = [
    ("leadership_lease", SchedulerBuilder::leadership_lease),
    ("run_lease", SchedulerBuilder::run_lease),
    ("shutdown_grace", SchedulerBuilder::shutdown_grace),
];

const OF_JOBS: [(&str, OfJob); 8] = [
    ("grace", JobBuilder::grace),
    ("timeout", JobBuilder::timeout),
    ("cancel_grace", JobBuilder::cancel_grace),
    ("fixed jitter", |job, time| job.jitter(Jitter::Fixed(time))),
    ("random jitter", |job, time| job.jitter(Jitter::Random(time))),
    ("initial delay", |job, time| job.retries(Retries { initial_delay: time, ..Retries::times(3) })),
    ("maximum delay", |job, time| job.retries(Retries { max_delay: time, ..Retries::times(3) })),
    ("waits", |job, time| job.retries(Retries { initial_delay: time, max_delay: time, max: u32::MAX })),
];

/// Runs a job whose first two attempts fail for three minutes, then ends. Returns early if the options are rejected.
async fn run(
    of_scheduler: impl Fn(SchedulerBuilder) -> SchedulerBuilder,
    of_job: impl Fn(JobBuilder) -> JobBuilder,
) {
    let fleet = Fleet::new();
    let locks = LockFactory::builder(fleet.memory.clone()).clock(fleet.clock.clone()).build();
    let cron =
        match of_scheduler(Scheduler::builder(locks.expect("valid options"), fleet.ledger.clone())).build() {
            Ok(cron) => cron,
            Err(error) => return assert_eq!(error.kind(), CronErrorKind::InvalidOptions, "{error:#}"),
        };
    for overlap in [Overlap::Skip, Overlap::CancelPrevious] {
        let name = format!("{overlap:?}").to_lowercase();
        let schedule = Schedule::cron("* * * * *").expect("valid schedule");
        let job = cron.job(&name, schedule, |run| async move {
            tokio::select! {
                () = sleep(secs(70)) => {}
                () = run.cancelled() => {}
            }
            if run.attempt() < 3 { Err("once more".into()) } else { Ok(()) }
        });
        let job = of_job(job.overlap(overlap).misfire(Misfire::FireAll { max: 2 }));
        if let Err(error) = job.register() {
            assert_eq!(error.kind(), CronErrorKind::InvalidOptions, "{error:#}");
        }
    }
    cron.run_until(sleep(secs(190))).await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn options_at_the_ends_of_their_ranges_do_not_panic() {
    let ends =
        [Duration::ZERO, Duration::from_nanos(1), Duration::MAX - Duration::from_nanos(1), Duration::MAX];
    for time in ends {
        for (option, set) in OF_SCHEDULERS {
            println!("{option}: {time:?}");
            run(|builder| set(builder, time), |job| job).await;
        }
        for (option, set) in OF_JOBS {
            println!("{option}: {time:?}");
            run(|builder| builder, |job| set(job, time)).await;
        }
    }
}

async fn takes_to_stop(running: Running) -> Duration {
    let begin = tokio::time::Instant::now();
    running.stop().await;
    begin.elapsed()
}

#[tokio::test(start_paused = true)]
async fn shutdown_takes_below_30_s_by_default() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let every_minute = Schedule::cron("* * * * *").expect("valid schedule");
    let job = node.cron.job("deaf", every_minute, |_| async {
        sleep(secs(3600)).await;
        Ok(())
    });
    job.register().expect("healthy store");
    let running = node.start();
    sleep(secs(61)).await;
    let took = takes_to_stop(running).await;
    assert!(took >= secs(25) && took < secs(26), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn claims_and_bodies_share_the_deadline_of_a_shutdown() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    node.job("body", "59 * * * * *", secs(3600)).register().expect("healthy store");
    node.job("claim", "* * * * *", secs(0)).register().expect("healthy store");
    let running = node.start();
    sleep(Duration::from_millis(59_500)).await;
    running.faulty.always(lock_testkit::Op::Claim, lock_testkit::Fault::Hang);
    sleep(secs(1)).await;
    let took = takes_to_stop(running).await;
    assert!(took >= secs(20) && took < secs(26), "{took:?}");
}
