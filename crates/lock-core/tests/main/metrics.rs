//! Every metric, as the OpenTelemetry SDK exports it.

use crate::support::{World, millis, name, secs};
use lock_core::{LockFactory, LockOptions, backend::BackendErrorKind, observer::OtelObserver};
use lock_testkit::{Fault, Op};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
    data::{AggregatedMetrics, MetricData},
};
use std::collections::BTreeMap;

struct Exported {
    provider: SdkMeterProvider,
    exporter: InMemoryMetricExporter,
}

/// Name → (unit, attributes as text → value; for a histogram, the count).
type Values = BTreeMap<String, (String, BTreeMap<String, f64>)>;

impl Exported {
    fn new() -> (Self, OtelObserver) {
        let exporter = InMemoryMetricExporter::default();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let observer = OtelObserver::new(&provider.meter("lock-core"));
        (Self { provider, exporter }, observer)
    }

    fn values(&self) -> Values {
        self.exporter.reset();
        self.provider.force_flush().unwrap();
        let mut values = Values::new();
        for resource in self.exporter.get_finished_metrics().unwrap() {
            for metric in resource.scope_metrics().flat_map(|scope| scope.metrics()) {
                let points = match metric.data() {
                    AggregatedMetrics::F64(MetricData::Histogram(histogram)) => histogram
                        .data_points()
                        .map(|point| {
                            let is_term = metric.name() == "lock.term.duration";
                            let bounds = if is_term { (1.0, 604_800.0) } else { (0.0005, 30.0) };
                            let of_point = (point.bounds().next(), point.bounds().last());
                            assert_eq!(of_point, (Some(bounds.0), Some(bounds.1)));
                            (text(point.attributes()), point.count() as f64)
                        })
                        .collect(),
                    AggregatedMetrics::U64(MetricData::Sum(sum)) => sum
                        .data_points()
                        .map(|point| (text(point.attributes()), point.value() as f64))
                        .collect(),
                    AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                        assert!(!sum.is_monotonic());
                        sum.data_points()
                            .map(|point| (text(point.attributes()), point.value() as f64))
                            .collect()
                    }
                    other => panic!("unexpected data of {}: {other:?}", metric.name()),
                };
                values.insert(metric.name().to_owned(), (metric.unit().to_owned(), points));
            }
        }
        values
    }
}

fn text<'a>(attributes: impl Iterator<Item = &'a opentelemetry::KeyValue>) -> String {
    let mut texts: Vec<_> = attributes.map(|kv| format!("{}={}", kv.key, kv.value)).collect();
    texts.sort();
    texts.join(" ")
}

#[tokio::test(start_paused = true)]
async fn every_metric_appears_and_gauges_return_to_zero() {
    let mut world = World::new();
    let (exported, observer) = Exported::new();
    world.locks = LockFactory::builder(world.faulty.clone())
        .clock(world.clock.clone())
        .options(LockOptions::new().lease(secs(3)).poll_interval(secs(1)))
        .observer(observer)
        .build()
        .unwrap();
    let lock = world.locks.named("x").unwrap();
    let other = world.another_process();

    // Acquired, released explicitly, re-entered, dropped.
    let guard = lock.acquire().await.unwrap();
    let inner = guard.reenter().await.unwrap();
    inner.release().await.unwrap();
    drop(guard);
    // Contended, timed out, cancelled, refused; woken by push and by poll.
    let rival = other.named("x").unwrap().acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.acquire_timeout(secs(7)).await.is_err());
    assert!(tokio::time::timeout(millis(10), lock.acquire()).await.is_err());
    let waiter = tokio::spawn(lock.acquire());
    world.settle().await;
    rival.release().await.unwrap();
    // Renewed, failed, gone.
    let guard = waiter.await.unwrap().unwrap();
    tokio::time::sleep(secs(2)).await;
    world.faulty.next(Op::Renew, Fault::FailBefore(BackendErrorKind::Unavailable));
    tokio::time::sleep(secs(2)).await;
    other.force_release(&name("x")).await.unwrap();
    guard.lost().await;
    drop(guard);
    // Expired, longest hold, an error.
    let fixed = lock.with_fixed_lease(secs(1)).unwrap().acquire().await.unwrap();
    fixed.lost().await;
    drop(fixed);
    let hung = lock.with_options(LockOptions::new().max_hold(secs(4))).unwrap().acquire().await.unwrap();
    hung.lost().await;
    hung.release().await.unwrap();
    world.faulty.next(Op::Acquire, Fault::Refuse(BackendErrorKind::Denied));
    assert!(lock.acquire().await.is_err());
    // Held and waited for at the shutdown.
    let last = lock.acquire().await.unwrap();
    let waiting = tokio::spawn(lock.acquire());
    world.settle().await;
    let during = exported.values();
    assert_eq!(during["lock.held"].1["lock.backend=memory"], 1.0);
    assert_eq!(during["lock.waiting"].1["lock.backend=memory"], 1.0);
    assert!(world.locks.shutdown().await.is_clean());
    assert!(waiting.await.unwrap().is_err());
    drop(last);
    world.settle().await;

    let values = exported.values();
    let expect = [
        (
            "lock.acquire.duration",
            "s",
            "lock.backend=memory lock.outcome=",
            vec!["acquired", "contended", "timeout", "cancelled", "error"],
        ),
        ("lock.hold.duration", "s", "lock.backend=memory lock.outcome=", vec!["released", "lost"]),
        (
            "lock.renewal.duration",
            "s",
            "lock.backend=memory lock.outcome=",
            vec!["renewed", "failed", "gone"],
        ),
        ("lock.lease.remaining", "s", "lock.backend=memory", vec![""]),
        (
            "lock.lost",
            "",
            "lock.backend=memory lock.reason=",
            vec!["expired", "gone", "max_hold", "shut_down"],
        ),
        ("lock.wakeup", "", "lock.backend=memory lock.outcome=", vec!["push", "poll"]),
    ];
    for (metric, unit, prefix, outcomes) in expect {
        let (exported_unit, points) = &values[metric];
        assert_eq!(exported_unit, unit, "{metric}");
        for outcome in outcomes {
            let point = points.get(&format!("{prefix}{outcome}"));
            assert!(point.is_some_and(|count| *count > 0.0), "{metric} {outcome}: {points:?}");
        }
    }
    let released = &values["lock.release"].1;
    for (outcome, kind) in [
        ("still_held", "explicit"),
        ("released", "dropped"),
        ("already_expired", "dropped"),
        ("already_expired", "explicit"),
    ] {
        let attributes = format!("lock.backend=memory lock.outcome={outcome} lock.release.kind={kind}");
        assert!(released.contains_key(&attributes), "{attributes}: {released:?}");
    }
    assert_eq!(values["lock.held"].1["lock.backend=memory"], 0.0, "lock.held returns to zero");
    assert_eq!(values["lock.waiting"].1["lock.backend=memory"], 0.0, "lock.waiting returns to zero");
    for (metric, (_, points)) in &values {
        assert!(
            points.keys().all(|attributes| !attributes.contains("lock.name")),
            "{metric} has lock names: {points:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn classifier_adds_a_class_but_no_name() {
    let world = World::new();
    let (exported, observer) = Exported::new();
    let observer =
        observer.classify(|name| if name.as_str().starts_with("stock:") { "stock" } else { "other" });
    let locks = LockFactory::builder(world.store.clone())
        .clock(world.clock.clone())
        .observer(observer)
        .build()
        .unwrap();
    locks.named("stock:42").unwrap().acquire().await.unwrap().release().await.unwrap();
    let values = exported.values();
    assert!(values["lock.held"].1.contains_key("lock.backend=memory lock.class=stock"), "{values:?}");
}

#[tokio::test(start_paused = true)]
async fn terms_of_leadership_are_counted_by_outcome() {
    let world = World::new();
    let (exported, observer) = Exported::new();
    let builder = LockFactory::builder(world.faulty.clone()).clock(world.clock.clone());
    let election = builder.observer(observer).build().unwrap().election("x").unwrap();
    let mut terms = 0;
    let leading = election.lead(move |_| {
        terms += 1;
        let term = terms;
        async move {
            match term {
                1 => Err("no"),
                2 => std::panic::resume_unwind(Box::new("as planned")),
                _ => std::future::pending().await,
            }
        }
    });
    let leading = tokio::spawn(leading.until(tokio::time::sleep(secs(120))));
    tokio::time::sleep(secs(60)).await;
    assert_eq!(exported.values()["lock.leading"].1["lock.backend=memory"], 1.0);
    // Its third term.
    world.another_process().force_release("x").await.unwrap();
    tokio::time::sleep(secs(30)).await;
    election.resign();
    leading.await.unwrap().unwrap();
    let ended = tokio::spawn(
        election.lead(|_| std::future::pending::<Result<(), &str>>()).until(std::future::pending()),
    );
    tokio::time::sleep(secs(1)).await;
    ended.abort();
    let _ = ended.await;
    election.lead(|_| async { Ok::<_, &str>(()) }).until(std::future::pending()).await.unwrap();
    let values = exported.values();
    assert_eq!(values["lock.leading"].1["lock.backend=memory"], 0.0, "it returns to zero");
    let ends = ["finished", "failed", "panicked", "lost", "resigned", "stopped", "cancelled"];
    let (unit, points) = &values["lock.term.duration"];
    assert_eq!((unit.as_str(), points.len()), ("s", ends.len()), "{points:?}");
    for end in ends {
        assert_eq!(points.get(&format!("lock.backend=memory lock.outcome={end}")), Some(&1.0), "{points:?}");
    }
}
