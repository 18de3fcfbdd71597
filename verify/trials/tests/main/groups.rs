//! Many groups in one process: their repeated requests share calls.

use crate::{fleet_node::long, load::requests};
use lock_core::LockFactory;
use lock_cron::{
    Schedule, Scheduler,
    observer::{CronEvent, CronObserver},
};
use lock_fred::RedisBackend;
use lock_testkit::RedisServer;
use lock_trials::process::PATIENCE;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

const GROUPS: usize = 100;
/// The time between the starts of two groups, so that the leaderships are acquired over a whole renewal period.
const APART: Duration = Duration::from_millis(35);

/// The number of heartbeats of each group.
#[derive(Debug, Clone, Default)]
struct Heartbeats(Arc<Mutex<BTreeMap<String, u64>>>);

impl Heartbeats {
    fn total(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Waits until each group has sent this many heartbeats since the last count.
    async fn of_each(&self, count: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let all = || {
            let sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            sent.len() == GROUPS && sent.values().all(|sent| *sent >= count)
        };
        let wait = async {
            while !all() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, wait).await.expect("heartbeats of every group");
    }
}

impl CronObserver for Heartbeats {
    fn on_event(&self, event: &CronEvent<'_>) {
        // Emitted with each heartbeat.
        if let CronEvent::ClockCompared { group, .. } = event {
            let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *sent.entry((*group).to_owned()).or_default() += 1;
        }
    }
}

fn schedulers(backend: &RedisBackend, heartbeats: &Heartbeats) -> Vec<Scheduler> {
    let locks = LockFactory::new(backend.clone());
    let of_group = |number| {
        let builder = Scheduler::builder(locks.clone(), backend.clone());
        builder.group(format!("group-{number}")).observer(heartbeats.clone()).build().expect("valid options")
    };
    (0..GROUPS).map(of_group).collect()
}

/// The job of a group runs only on the first of January.
async fn register(cron: &Scheduler) {
    for name in ["invoices", "reminders", "reports"] {
        let schedule = Schedule::cron("0 0 1 1 *").expect("valid schedule");
        cron.job(name, schedule, |_| async { Ok(()) }).register().expect("valid job");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_share_their_calls() {
    let (server, heartbeats) = (RedisServer::start(), Heartbeats::default());
    let backend = RedisBackend::connect(&server.url()).await.expect("running server");
    let (stop, stopped) = watch::channel(());
    let mut running = JoinSet::new();
    for cron in schedulers(&backend, &heartbeats) {
        register(&cron).await;
        let mut stopped = stopped.clone();
        running.spawn(async move { cron.run_until(async move { drop(stopped.changed().await) }).await });
        sleep(APART).await;
    }
    heartbeats.of_each(5).await;
    let (begun, before, inner) = (Instant::now(), requests(&server), server_commands(&server));
    // Long enough for a registration of each group.
    heartbeats.of_each(if long() { 75 } else { 10 }).await;
    let (sent, took) = (requests(&server) - before, begun.elapsed().as_secs_f64());
    let total = heartbeats.total();
    let per_second = sent as f64 / took;
    eprintln!(
        "{GROUPS} idle groups in a process: {per_second:.2} requests a second for {:.0} heartbeats, {:.0} commands in scripts",
        total as f64 / took,
        (server_commands(&server) - inner - sent) as f64 / took,
    );
    drop(stop);
    while let Some(ended) = running.join_next().await {
        ended.expect("no panic").expect("clean shutdown");
    }
    assert!(sent * 4 < total, "{sent} requests for {total} heartbeats");
    assert!(!long() || per_second < 5.0, "{per_second} requests a second while nothing is due");
}

fn server_commands(server: &RedisServer) -> u64 {
    let statistics = server.command(&["INFO", "commandstats"]);
    let calls = |line: &str| line.split_once(":calls=")?.1.split(',').next()?.parse::<u64>().ok();
    statistics.text().lines().filter_map(calls).sum()
}
