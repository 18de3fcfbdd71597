//! The supplied alerts (`docs/operating/alerts.yaml`), evaluated by Prometheus' rule tester over the metrics of a fleet in
//! virtual time. They are silent at rest, in a rollout and with two programs in a group, and fire in an outage.

#![allow(clippy::unwrap_used)]

use lock_core::{
    LockFactory, MemoryBackend, backend::BackendErrorKind, clock::TestClock, observer::OtelObserver,
};
use lock_cron::{MemoryLedger, Schedule, Scheduler, observer::OtelCronObserver};
use lock_testkit::{Fault, FaultyBackend};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path, process::Command, sync::Arc, time::Duration};
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

/// The time between two samples, and between two evaluations of the rules.
const INTERVAL: u64 = 15;

const WITHOUT_LEADER: &str = "SchedulerWithoutLeader";

struct Node {
    name: &'static str,
    registry: Registry,
    faulty: FaultyBackend,
    stop: oneshot::Sender<()>,
    tasks: [JoinHandle<()>; 2],
    /// Keeps the instruments active.
    _provider: SdkMeterProvider,
}

/// Nodes over one store, and the samples of their metrics so far.
struct Fleet {
    clock: Arc<TestClock>,
    memory: MemoryBackend,
    ledger: MemoryLedger,
    nodes: Vec<Node>,
    series: BTreeMap<String, Vec<Option<f64>>>,
    samples: usize,
}

impl Fleet {
    fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        let (memory, ledger) =
            (MemoryBackend::with_clock(clock.clone()), MemoryLedger::with_clock(clock.clone()));
        Self { clock, memory, ledger, nodes: Vec::new(), series: BTreeMap::new(), samples: 0 }
    }

    /// Starts a node whose process also takes turns for a lock of its own.
    fn start(&mut self, name: &'static str, jobs: &[&str]) {
        let registry = Registry::new();
        let exporter =
            opentelemetry_prometheus::exporter().with_registry(registry.clone()).without_target_info();
        let provider = SdkMeterProvider::builder().with_reader(exporter.build().unwrap()).build();
        let meter = provider.meter("shop");
        let faulty = FaultyBackend::new(self.memory.clone());
        let locks = LockFactory::builder(faulty.clone()).clock(self.clock.clone());
        let locks = locks.observer(OtelObserver::new(&meter)).build().unwrap();
        let cron = Scheduler::builder(locks.clone(), faulty.ledger(self.ledger.clone())).group("shop");
        let cron = cron.node(name).observer(OtelCronObserver::new(&meter)).build().unwrap();
        for job in jobs {
            let minutely = Schedule::cron("* * * * *").unwrap();
            cron.job(job, minutely, |_| async { Ok(()) })
                .alert_after(Duration::from_secs(300))
                .register()
                .unwrap();
        }
        cron.kind("import", |_| async { Ok(()) }).register().unwrap();
        let (stop, stopped) = oneshot::channel();
        let scheduler = tokio::spawn(async move {
            cron.run_until(async { drop(stopped.await) }).await.unwrap();
        });
        let user = tokio::spawn(async move {
            loop {
                if let Ok(guard) = locks.named("stock").unwrap().acquire().await {
                    sleep(Duration::from_secs(40)).await;
                    let _ = guard.release().await;
                }
                sleep(Duration::from_secs(1)).await;
            }
        });
        let tasks = [scheduler, user];
        self.nodes.push(Node { name, registry, faulty, stop, tasks, _provider: provider });
    }

    /// Stops the oldest node.
    async fn stop_one(&mut self) {
        let Node { stop, tasks: [scheduler, user], .. } = self.nodes.remove(0);
        drop(stop);
        scheduler.await.unwrap();
        user.abort();
        let _ = user.await;
    }

    /// Lets this time pass, with a sample of each node every 15 s.
    async fn pass(&mut self, minutes: u64) {
        for _ in 0..minutes * 60 / INTERVAL {
            sleep(Duration::from_secs(INTERVAL)).await;
            for node in &self.nodes {
                let text = TextEncoder::new().encode_to_string(&node.registry.gather()).unwrap();
                for line in text.lines().filter(|line| !line.starts_with('#')) {
                    let (series, value) = line.rsplit_once(' ').unwrap();
                    let series = match series.split_once('{') {
                        Some((name, labels)) => format!("{name}{{instance=\"{}\",{labels}", node.name),
                        None => format!("{series}{{instance=\"{}\"}}", node.name),
                    };
                    let values = self.series.entry(series).or_default();
                    values.resize(self.samples, None);
                    values.push(Some(value.parse().unwrap()));
                }
            }
            self.samples += 1;
        }
    }

    /// Returns the series as the rule tester reads them. A series that ends is stale, as after a failed scrape.
    fn input(&self) -> Vec<Value> {
        let of_one = |(series, values): (&String, &Vec<Option<f64>>)| {
            let mut words = Vec::new();
            let mut before = false;
            for value in values.iter().copied().chain(std::iter::repeat(None)).take(self.samples) {
                words.push(match (value, before) {
                    (Some(value), _) => value.to_string(),
                    (None, true) => "stale".to_owned(),
                    (None, false) => "_".to_owned(),
                });
                before = value.is_some();
            }
            json!({ "series": series, "values": words.join(" ") })
        };
        self.series.iter().map(of_one).collect()
    }

    /// Evaluates the supplied rules, and compares the results of these expressions, each at a minute.
    fn check(&self, scene: &str, expected: &[(u64, String, Vec<Value>)]) {
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/alerts.yaml");
        let of_one = |(minute, expr, samples): &(u64, String, Vec<Value>)| json!({ "eval_time": format!("{minute}m"), "expr": expr, "exp_samples": samples });
        let test = json!({
            "rule_files": [rules.canonicalize().unwrap()],
            "evaluation_interval": format!("{INTERVAL}s"),
            "tests": [{
                "name": scene,
                "interval": format!("{INTERVAL}s"),
                "input_series": self.input(),
                "promql_expr_test": expected.iter().map(of_one).collect::<Vec<_>>(),
            }],
        });
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("alerts-{scene}.json"));
        fs::write(&file, test.to_string()).unwrap();
        let output = Command::new("promtool").args(["test", "rules"]).arg(&file).output();
        let output =
            output.expect("promtool is missing: install Prometheus (Debian: `apt-get install prometheus`)");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{scene}: {}{}", text(&output.stdout), text(&output.stderr));
    }

    /// Asserts that no rule fires at any minute.
    fn assert_silent(&self, scene: &str) {
        let minutes = self.samples as u64 * INTERVAL / 60;
        let silent = |minute| (minute, "ALERTS{alertstate=\"firing\"}".to_owned(), Vec::new());
        self.check(scene, &(1..minutes).map(silent).collect::<Vec<_>>());
    }
}

fn fires(alert: &str, minute: u64) -> (u64, String, Vec<Value>) {
    let expr = format!("count(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})");
    (minute, expr, vec![json!({ "labels": "{}", "value": 1 })])
}

#[tokio::test(start_paused = true)]
async fn alerts_are_silent_at_rest() {
    let mut fleet = Fleet::new();
    for name in ["a", "b", "c"] {
        fleet.start(name, &["invoices", "reports"]);
    }
    fleet.pass(30).await;
    fleet.assert_silent("rest");
}

#[tokio::test(start_paused = true)]
async fn alerts_are_silent_in_a_rollout_with_other_jobs() {
    let mut fleet = Fleet::new();
    for name in ["a1", "b1", "c1"] {
        fleet.start(name, &["invoices", "reports"]);
    }
    fleet.pass(5).await;
    for name in ["a2", "b2", "c2"] {
        fleet.start(name, &["invoices", "reminders"]);
        fleet.pass(2).await;
        fleet.stop_one().await;
        fleet.pass(2).await;
    }
    fleet.pass(10).await;
    fleet.assert_silent("rollout");
}

#[tokio::test(start_paused = true)]
async fn alerts_are_silent_with_two_programs_in_a_group() {
    let mut fleet = Fleet::new();
    for (name, job) in [("a", "invoices"), ("b", "invoices"), ("c", "reports"), ("d", "reports")] {
        fleet.start(name, &[job, "both"]);
    }
    fleet.pass(20).await;
    fleet.assert_silent("programs");
}

#[tokio::test(start_paused = true)]
async fn missing_leader_is_reported_during_an_outage_only() {
    let mut fleet = Fleet::new();
    for (name, job) in [("a", "invoices"), ("b", "invoices"), ("c", "reports"), ("d", "reports")] {
        fleet.start(name, &[job]);
    }
    fleet.pass(5).await;
    // The store is out of reach for one of two programs, and then for both.
    let fail = |node: &Node| node.faulty.always_all(Fault::FailBefore(BackendErrorKind::Unavailable));
    fleet.nodes[..2].iter().for_each(fail);
    fleet.pass(4).await;
    fleet.nodes.iter().for_each(fail);
    fleet.pass(4).await;
    fleet.nodes.iter().for_each(|node| node.faulty.heal());
    fleet.pass(4).await;
    let mut both = fires(WITHOUT_LEADER, 12);
    both.2[0]["value"] = json!(2);
    let silent = |minute| (minute, format!("ALERTS{{alertname=\"{WITHOUT_LEADER}\"}}"), Vec::new());
    fleet.check("outage", &[silent(4), fires(WITHOUT_LEADER, 8), both, silent(16)]);
}
