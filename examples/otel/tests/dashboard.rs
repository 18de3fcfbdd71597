//! Compares the dashboard and the alerts with the instruments that the observers create.

#![allow(clippy::unwrap_used)]

use lock_core::observer::OtelObserver;
use lock_cron::observer::OtelCronObserver;
use lock_tower::observer::OtelLayerObserver;
use opentelemetry::metrics::{
    Counter, Gauge, Histogram, HistogramBuilder, InstrumentBuilder, InstrumentProvider, Meter, UpDownCounter,
};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

/// Creates instruments that do nothing.
struct Noop;

impl InstrumentProvider for Noop {}

/// The names that Prometheus has for the instruments created on a meter.
#[derive(Default)]
struct Names(Mutex<BTreeSet<String>>);

impl Names {
    fn add(&self, name: &str, unit: Option<&str>, endings: &[&str]) {
        let unit = match unit {
            None => "",
            Some("s") => "_seconds",
            Some(other) => panic!("{name} has the unit {other}"),
        };
        let name = name.replace('.', "_");
        self.0.lock().unwrap().extend(endings.iter().map(|ending| format!("{name}{unit}{ending}")));
    }
}

impl InstrumentProvider for Names {
    fn u64_counter(&self, builder: InstrumentBuilder<'_, Counter<u64>>) -> Counter<u64> {
        self.add(&builder.name, builder.unit.as_deref(), &["_total"]);
        Noop.u64_counter(builder)
    }

    fn i64_up_down_counter(&self, builder: InstrumentBuilder<'_, UpDownCounter<i64>>) -> UpDownCounter<i64> {
        self.add(&builder.name, builder.unit.as_deref(), &[""]);
        Noop.i64_up_down_counter(builder)
    }

    fn f64_gauge(&self, builder: InstrumentBuilder<'_, Gauge<f64>>) -> Gauge<f64> {
        self.add(&builder.name, builder.unit.as_deref(), &[""]);
        Noop.f64_gauge(builder)
    }

    fn f64_histogram(&self, builder: HistogramBuilder<'_, Histogram<f64>>) -> Histogram<f64> {
        self.add(&builder.name, builder.unit.as_deref(), &["_bucket", "_sum", "_count"]);
        Noop.f64_histogram(builder)
    }
}

fn metrics() -> BTreeSet<String> {
    let names = Arc::new(Names::default());
    let meter = Meter::new(names.clone());
    drop((OtelObserver::new(&meter), OtelLayerObserver::new(&meter), OtelCronObserver::new(&meter)));
    let metrics = names.0.lock().unwrap().clone();
    assert!(metrics.contains("lock_acquire_duration_seconds_bucket") && metrics.len() > 40, "{metrics:?}");
    metrics
}

/// The attributes that the expressions use.
const ATTRIBUTES: [&str; 8] = [
    "lock_outcome",
    "lock_reason",
    "lock_class",
    "http_route",
    "cron_job",
    "cron_jobs",
    "cron_group",
    "cron_reason",
];

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks the names in the expressions, and returns the metrics that they use.
fn check(expressions: &[String]) -> BTreeSet<String> {
    let metrics = metrics();
    let mut used = BTreeSet::new();
    for expression in expressions {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let ours = |word: &&str| ["lock_", "cron_", "http_"].iter().any(|prefix| word.starts_with(prefix));
        for word in words.filter(ours).filter(|word| !ATTRIBUTES.contains(word)) {
            assert!(metrics.contains(word), "no observer has `{word}`, which `{expression}` uses");
            used.insert(word.to_owned());
        }
        let count = |c| expression.matches(c).count();
        for (open, close) in [('(', ')'), ('[', ']'), ('{', '}')] {
            assert_eq!(count(open), count(close), "{expression}");
        }
    }
    used
}

#[test]
fn every_metric_of_the_dashboard_exists() {
    let dashboard: serde_json::Value = serde_json::from_str(&file("grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let expressions: Vec<_> = targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    let used = check(&expressions);
    assert!(used.len() >= 18, "{used:?}");
}

#[test]
fn every_metric_of_the_alerts_exists() {
    let text = file("alerts.yaml");
    let expressions: Vec<_> = text.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert_eq!(expressions.len(), text.matches("- alert: ").count());
    let used = check(&expressions.iter().map(|expression| (*expression).to_owned()).collect::<Vec<_>>());
    assert!(used.len() >= 13, "{used:?}");
}

#[test]
#[should_panic(expected = "no observer has `lock_losses_total`")]
fn misspelt_metric_is_found() {
    check(&["sum(rate(lock_losses_total[5m]))".to_owned()]);
}
