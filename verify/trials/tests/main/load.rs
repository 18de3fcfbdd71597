//! Many jobs on one node: the requests while nothing is due, and the starts while a tenth of the jobs is due each
//! second.

use crate::fleet_node::long;
use lock_core::{LockFactory, LockName};
use lock_cron::{
    Schedule, Scheduler,
    observer::{CronEvent, CronObserver},
};
use lock_fred::RedisBackend;
use lock_testkit::RedisServer;
use lock_trials::process::PATIENCE;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

fn jobs() -> usize {
    if long() { 1_000 } else { 200 }
}

#[derive(Debug, Clone, Default)]
struct Lags(Arc<Mutex<Vec<(LockName, Duration)>>>);

impl Lags {
    fn take(&self) -> Vec<(LockName, Duration)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of jobs that have started.
    fn jobs(&self) -> usize {
        let starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.iter().map(|(job, _)| job).collect::<BTreeSet<_>>().len()
    }
}

impl CronObserver for Lags {
    fn on_event(&self, event: &CronEvent<'_>) {
        if let CronEvent::Started { job, lag, .. } = event {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((LockName::clone(job), *lag));
        }
    }
}

/// Returns the number of requests from clients. A script counts as one.
pub(crate) fn requests(server: &RedisServer) -> u64 {
    let statistics = server.command(&["INFO", "commandstats"]);
    let of = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let sent = ["evalsha", "eval", "ping", "subscribe", "unsubscribe"].contains(&name);
        rest.split(',').next()?.parse::<u64>().ok().filter(|_| sent)
    };
    statistics.text().lines().filter_map(of).sum()
}

async fn scheduler(server: &RedisServer, lags: &Lags, schedule: impl Fn(usize) -> String) -> Scheduler {
    let backend = RedisBackend::connect(&server.url()).await.expect("running server");
    let builder =
        Scheduler::builder(LockFactory::new(backend.clone()), backend).group("load").observer(lags.clone());
    let cron = builder.build().expect("consistent options");
    for number in 0..jobs() {
        let schedule = Schedule::cron(&schedule(number)).expect("valid schedule");
        let job = cron.job(&format!("job-{number}"), schedule, |_| async { Ok(()) });
        job.register().expect("running server");
    }
    cron
}

fn percentile(sorted: &[Duration], part: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_jobs_cost_little_and_all_start() {
    let (server, lags) = (RedisServer::start(), Lags::default());
    let cron = scheduler(&server, &lags, |_| "0 0 1 1 *".to_owned()).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let idle = tokio::spawn(async move { cron.run_until(async { drop(stopped.await) }).await });
    sleep(Duration::from_secs(2)).await;
    let (begun, before) = (Instant::now(), requests(&server));
    sleep(Duration::from_secs(10)).await;
    let per_second = (requests(&server) - before) as f64 / begun.elapsed().as_secs_f64();
    drop(stop);
    idle.await.expect("ends").expect("clean shutdown");
    assert!(per_second < 5.0, "{per_second} requests a second while nothing is due");

    let server = RedisServer::start();
    // A tenth of them is due each second, all at the same instant.
    let cron = scheduler(&server, &lags, |number| format!("{}/10 * * * * *", number % 10)).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(async move { cron.run_until(async { drop(stopped.await) }).await });
    // Until the node leads and the server knows the scripts.
    sleep(Duration::from_secs(3)).await;
    lags.take();
    sleep(Duration::from_secs(10)).await;
    let all_start = async {
        while lags.jobs() < jobs() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, all_start).await.expect("starts of every job");
    drop(stop);
    running.await.expect("ends").expect("clean shutdown");
    let mut lags: Vec<_> = lags.take().into_iter().map(|(_, lag)| lag).collect();
    lags.sort_unstable();
    let (half, most) = (percentile(&lags, 0.5), percentile(&lags, 0.99));
    eprintln!(
        "{} jobs: {per_second:.1} requests a second when idle; a tenth due at once each second, {} starts: p50 {half:?}, p99 {most:?}",
        jobs(),
        lags.len()
    );
    // Without optimisation the Redis client needs a millisecond per request.
    let bound = Duration::from_millis(if cfg!(debug_assertions) { 250 } else { 50 });
    assert!(!long() || most < bound, "p99 of the lag is {most:?}, above {bound:?}");
}
