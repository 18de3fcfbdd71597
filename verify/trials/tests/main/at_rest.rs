//! A fleet on PostgreSQL whose jobs are not due: it starts nothing, and costs the server little. With `LOCK_LONG=1`, twenty
//! nodes with 200 jobs and 2,000 instances for half a minute.

use crate::fleet_node::long;
use lock_core::{LockFactory, LockOptions};
use lock_cron::{RunContext, Schedule, Scheduler};
use lock_testkit::PostgresServer;
use lock_trials::cli::Client;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};
use tokio::{sync::watch, task::JoinSet, time::sleep};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the processor time of a server and its children, in seconds.
fn used(server: u32) -> f64 {
    let times = fs::read_dir("/proc").expect("Linux").flatten().filter_map(|process| {
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        let (head, tail) = stat.rsplit_once(") ")?;
        let fields: Vec<_> = tail.split(' ').collect();
        let (id, parent): (u32, u32) = (head.split(' ').next()?.parse().ok()?, fields[1].parse().ok()?);
        let time = |range: std::ops::Range<usize>| {
            fields[range].iter().filter_map(|t| t.parse::<f64>().ok()).sum::<f64>()
        };
        // A child that has ended counts for its parent.
        match (id == server, parent == server) {
            (true, _) => Some(time(11..15)),
            (_, true) => Some(time(11..13)),
            _ => None,
        }
    });
    times.sum::<f64>() / 100.0
}

async fn rest(nodes: usize, jobs: usize, instances: usize, watched: Duration) {
    let server = PostgresServer::with_settings(&["fsync=on", "max_connections=400"]);
    let (url, process) = (format!("{}?migrate=true", server.url()), server.pid().expect("it runs"));
    let starts = Arc::new(AtomicU32::new(0));
    let body = |starts: &Arc<AtomicU32>| {
        let starts = starts.clone();
        move |_: RunContext| {
            starts.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        }
    };
    let (stop, stopped) = watch::channel(false);
    let (mut running, mut last) = (JoinSet::new(), None);
    for _ in 0..nodes {
        let connected = Client::of_this_run().connect_with_ledger(&url).await;
        let (store, ledger) = connected.expect("the database is there");
        let locks =
            LockFactory::builder(store).options(LockOptions::default()).build().expect("consistent options");
        let cron = Scheduler::builder(locks, ledger).group("rest").build().expect("consistent options");
        for number in 0..jobs {
            let yearly = Schedule::cron("0 0 0 1 1 *").expect("valid schedule");
            cron.job(&format!("job-{number}"), yearly, body(&starts)).register().expect("valid job");
        }
        cron.kind("import", body(&starts)).register().expect("valid kind");
        let (node, mut stopped) = (cron.clone(), stopped.clone());
        running.spawn(async move {
            node.run_until(async { drop(stopped.wait_for(|stops| *stops).await) })
                .await
                .expect("clean shutdown");
        });
        last = Some(cron);
    }
    let cron = last.expect("a node");
    for number in 0..instances {
        let added = cron.once("import", &number.to_string(), SystemTime::now() + DAY, &()).await;
        added.expect("the database is there");
    }
    // All nodes have read them.
    sleep(Duration::from_secs(if long() { 40 } else { 2 })).await;
    let (before, begun) = (used(process), Instant::now());
    sleep(watched).await;
    let core = (used(process) - before) / begun.elapsed().as_secs_f64();
    println!(
        "{nodes} nodes at rest, {jobs} jobs, {instances} instances: {:.1} % of a core of PostgreSQL",
        core * 100.0
    );
    assert_eq!(cron.list().await.expect("the database is there").len(), jobs + instances);
    assert_eq!(starts.load(Ordering::Relaxed), 0, "nothing is due");
    stop.send_replace(true);
    while let Some(ended) = running.join_next().await {
        ended.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fleet_at_rest_starts_nothing() {
    match long() {
        true => rest(20, 200, 2_000, Duration::from_secs(30)).await,
        false => rest(3, 10, 100, Duration::from_secs(2)).await,
    }
}
