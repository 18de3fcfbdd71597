//! Many instances, with large payloads or in large numbers, on two nodes: all of them start with their payloads, and
//! an unrelated job is not delayed. With `LOCK_LONG=1`, twenty times as many, and bounds on times.

use crate::{fleet_node::long, load::requests};
use lock_core::LockFactory;
use lock_cron::{CronErrorKind, MAX_PAYLOAD_BYTES, RunContext, Schedule, Scheduler};
use lock_fred::RedisBackend;
use lock_testkit::RedisServer;
use lock_trials::process::PATIENCE;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::{
    sync::oneshot,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

/// The starts of all nodes.
#[derive(Debug, Clone, Default)]
struct Starts(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    /// The number of starts and the last length of the payload, by instance.
    instances: BTreeMap<String, (u32, usize)>,
    /// The instants of the unrelated job.
    ticks: BTreeSet<u64>,
}

impl Starts {
    fn with<T>(&self, f: impl FnOnce(&mut Written) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn kind(&self, run: &RunContext) -> Result<(), lock_cron::BadPayload> {
        let length = run.payload::<String>()?.len();
        self.with(|written| {
            let (count, of) = written.instances.entry(run.job().to_string()).or_default();
            (*count, *of) = (*count + 1, length);
        });
        Ok(())
    }
}

struct Node {
    cron: Scheduler,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Node {
    async fn start(server: &RedisServer, starts: &Starts) -> Self {
        let backend = RedisBackend::connect(&server.url()).await.expect("running server");
        let cron = Scheduler::builder(LockFactory::new(backend.clone()), backend).group("large").build();
        let cron = cron.expect("consistent options");
        let (of_kind, of_tick) = (starts.clone(), starts.clone());
        let kind = cron.kind("import", move |run| {
            let read = of_kind.kind(&run);
            async move { Ok(read?) }
        });
        kind.register().expect("valid kind");
        let tick = cron.job("tick", Schedule::cron("* * * * * *").expect("valid schedule"), move |run| {
            of_tick.with(|written| written.ticks.insert(run.scheduled_at().as_millis() / 1000));
            async { Ok(()) }
        });
        tick.register().expect("valid job");
        let ((stop, stopped), running) = (oneshot::channel::<()>(), cron.clone());
        let task = tokio::spawn(async move {
            running.run_until(async { drop(stopped.await) }).await.expect("clean shutdown");
        });
        Self { cron, stop, task }
    }

    async fn stop(self) {
        drop(self.stop);
        self.task.await.expect("ends");
    }
}

/// Returns the processor time of the server, in seconds.
fn used(server: &RedisServer) -> f64 {
    let info = server.command(&["INFO", "cpu"]);
    let of = |line: &str| {
        let value = line.strip_prefix("used_cpu_sys:").or_else(|| line.strip_prefix("used_cpu_user:"))?;
        value.trim().parse::<f64>().ok()
    };
    info.text().lines().filter_map(of).sum()
}

async fn wait_until(what: &str, met: impl Fn() -> bool) {
    let waiting = async {
        while !met() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE * 4, waiting).await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

/// Adds instances that run once, or changes their times, several at a time.
async fn add_all(cron: &Scheduler, count: usize, at: SystemTime, payload: &str) {
    let mut tasks = JoinSet::new();
    for part in 0..16 {
        let (cron, payload) = (cron.clone(), payload.to_owned());
        tasks.spawn(async move {
            for number in (part..count).step_by(16) {
                cron.once("import", &number.to_string(), at, &payload).await.expect("running server");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
}

/// Adds instances for the next day, watches the unrelated job for a while, and then has all instances run now, on two
/// nodes.
async fn run_group(count: usize, length: usize) {
    let (server, starts) = (RedisServer::start(), Starts::default());
    let nodes = [Node::start(&server, &starts).await, Node::start(&server, &starts).await];
    let payload = "x".repeat(length);
    let cron = &nodes[0].cron;
    // No instance is due while the unrelated job is watched.
    let begun = Instant::now();
    add_all(cron, count, SystemTime::now() + Duration::from_secs(24 * 60 * 60), &payload).await;
    let added_in = begun.elapsed();
    // Both nodes have read all of them, and nothing is due.
    let listed = Instant::now();
    assert_eq!(cron.list().await.expect("running server").len(), count + 1);
    let listed_in = listed.elapsed();
    sleep(Duration::from_secs(3)).await;
    let watched = if long() { 30 } else { 3 };
    let seconds = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let (first, cpu, sent, begun) = (seconds() + 1, used(&server), requests(&server), Instant::now());
    sleep(Duration::from_secs(watched + 1)).await;
    let core = (used(&server) - cpu) / begun.elapsed().as_secs_f64();
    let per_second = (requests(&server) - sent) as f64 / begun.elapsed().as_secs_f64();
    let last = || starts.with(|written| written.ticks.last().copied().unwrap_or_default());
    wait_until("the unrelated job", || last() >= first + watched).await;
    let ticks = starts.with(|written| written.ticks.range(first..first + watched).count());
    let begun = Instant::now();
    add_all(cron, count, SystemTime::now(), &payload).await;
    wait_until("every instance", || starts.with(|written| written.instances.len()) == count).await;
    let started_in = begun.elapsed();
    let started = starts.with(|written| written.instances.clone());
    assert!(started.values().all(|of| *of == (1, length)), "each starts once, with its payload");
    for node in nodes {
        node.stop().await;
    }
    eprintln!(
        "| {count} × {length} B | added in {added_in:.1?} | listed in {listed_in:.1?} | unrelated job: {ticks} of {watched} | \
         Redis: {:.1} % of a core, {per_second:.0} requests a second | {} of {count} started once in {started_in:.1?} |",
        core * 100.0,
        started.len(),
    );
    if long() {
        assert_eq!(ticks as u64, watched);
        assert!(core < 0.1, "{core}");
    }
}

fn counts() -> [(usize, usize); 2] {
    let part = if long() { 1 } else { 20 };
    [(1_000 / part, 60_000), (10_000 / part, 100)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_delay_no_other_job() {
    let [(count, length), _] = counts();
    run_group(count, length).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_instances_delay_no_other_job() {
    let [_, (count, length)] = counts();
    run_group(count, length).await;
}

/// In the normal tier, the sum is preset, so that one payload reaches the limit.
#[tokio::test]
async fn group_over_the_limit_of_payloads_is_refused_by_name() {
    let server = RedisServer::start();
    let backend = RedisBackend::connect(&server.url()).await.expect("running server");
    let cron = Scheduler::builder(LockFactory::new(backend.clone()), backend).group("large").build();
    let cron = cron.expect("consistent options");
    let payload = "x".repeat(MAX_PAYLOAD_BYTES - 2);
    let fitting = 128 * 1024 * 1024 / MAX_PAYLOAD_BYTES;
    if !long() {
        let bytes = ((fitting - 2) * MAX_PAYLOAD_BYTES).to_string();
        server.command(&["HSET", "distlock:ledger:2:payloads:{large}", "\nbytes", &bytes]);
    }
    let daily = Schedule::cron("@daily").expect("valid schedule");
    let added = if long() { fitting } else { 2 };
    for number in 0..added {
        cron.add("import", &number.to_string(), daily.clone(), &payload).await.expect("below the limit");
    }
    let error = cron.add("import", "more", daily, &payload).await.expect_err("above the limit");
    assert_eq!(error.kind(), CronErrorKind::PayloadsTooLarge);
    assert!(error.to_string().contains("`import/more`"), "{error}");
    eprintln!("| {added} × {} B, then one more | {error} |", MAX_PAYLOAD_BYTES);
}
