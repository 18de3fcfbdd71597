//! All metrics, as exported by the OpenTelemetry SDK.

use crate::support::{World, ask, get, millis, secs, text};
use axum::{Router, routing::any};
use lock_testkit::{Fault, Op};
use lock_tower::{KeyTemplate, LockLayer, WithoutLock, observer::OtelLayerObserver};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
    data::{AggregatedMetrics, MetricData},
};
use std::collections::BTreeSet;

/// Returns one line for each instrument and set of attributes, with the count.
fn exported(provider: &SdkMeterProvider, exporter: &InMemoryMetricExporter) -> BTreeSet<String> {
    provider.force_flush().unwrap();
    let mut lines = BTreeSet::new();
    for resource in exporter.get_finished_metrics().unwrap() {
        for metric in resource.scope_metrics().flat_map(|scope| scope.metrics()) {
            let mut line = |attributes: Vec<String>, count: u64| {
                lines.insert(format!("{} {} = {count}", metric.name(), attributes.join(" ")));
            };
            match metric.data() {
                AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                    assert_eq!(metric.unit(), "s");
                    histogram.data_points().for_each(|point| line(texts(point.attributes()), point.count()));
                }
                AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                    sum.data_points().for_each(|point| line(texts(point.attributes()), point.value()));
                }
                other => panic!("unexpected data of {}: {other:?}", metric.name()),
            }
        }
    }
    lines
}

fn texts<'a>(attributes: impl Iterator<Item = &'a opentelemetry::KeyValue>) -> Vec<String> {
    let mut texts: Vec<_> = attributes.map(|kv| format!("{}={}", kv.key, kv.value)).collect();
    texts.sort();
    texts
}

#[tokio::test(start_paused = true)]
async fn metrics_contain_the_route_and_no_key() {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let meter = provider.meter("lock-tower");
    let world = World::new();
    let layer = || world.layer().key("k:{id}").observer(OtelLayerObserver::new(&meter));
    let app = |layer: LockLayer<KeyTemplate>| {
        let hangs = async || std::future::pending::<()>().await;
        let routes =
            Router::new().route("/quick/{id}", any(async || "served")).route("/hangs/{id}", any(hangs));
        routes.route_layer(layer)
    };
    let quick = async |layer| drop(text(ask(&app(layer), get("/quick/4711")).await).await);

    quick(layer()).await;
    quick(layer()).await;
    let other = world.another_process().named("k:4711").unwrap().acquire().await.unwrap();
    quick(layer()).await;
    quick(layer().fail_fast()).await;
    quick(layer().max_waiters(0)).await;
    quick(layer().shadow()).await;
    assert!(tokio::time::timeout(millis(100), quick(layer())).await.is_err());
    other.release().await.unwrap();
    ask(&app(layer().max_hold(secs(1))), get("/hangs/4711")).await;
    world.faulty.always(Op::Acquire, Fault::Hang);
    quick(layer()).await;
    quick(layer().on_unavailable(WithoutLock::PassThrough)).await;
    world.faulty.heal();

    let lines = exported(&provider, &exporter);
    let expected = BTreeSet::from([
        "lock.http.hold.duration http.route=/hangs/{id} = 1",
        "lock.http.hold.duration http.route=/quick/{id} = 2",
        "lock.http.lost http.route=/hangs/{id} = 1",
        "lock.http.requests http.route=/hangs/{id} lock.disposition=served lock.outcome=acquired = 1",
        "lock.http.requests http.route=/quick/{id} lock.disposition=none lock.outcome=cancelled = 1",
        "lock.http.requests http.route=/quick/{id} lock.disposition=passed_through lock.outcome=backend_error = 1",
        "lock.http.requests http.route=/quick/{id} lock.disposition=passed_through lock.outcome=timeout = 1",
        "lock.http.requests http.route=/quick/{id} lock.disposition=rejected lock.outcome=backend_error = 1",
        "lock.http.requests http.route=/quick/{id} lock.disposition=rejected lock.outcome=contended = 1",
        "lock.http.requests http.route=/quick/{id} lock.disposition=rejected lock.outcome=overloaded = 1",
        "lock.http.requests http.route=/quick/{id} lock.disposition=rejected lock.outcome=timeout = 1",
        "lock.http.requests http.route=/quick/{id} lock.disposition=served lock.outcome=acquired = 2",
        "lock.http.wait.duration http.route=/hangs/{id} lock.outcome=acquired = 1",
        "lock.http.wait.duration http.route=/quick/{id} lock.outcome=acquired = 2",
        "lock.http.wait.duration http.route=/quick/{id} lock.outcome=backend_error = 2",
        "lock.http.wait.duration http.route=/quick/{id} lock.outcome=contended = 1",
        "lock.http.wait.duration http.route=/quick/{id} lock.outcome=cancelled = 1",
        "lock.http.wait.duration http.route=/quick/{id} lock.outcome=overloaded = 1",
        "lock.http.wait.duration http.route=/quick/{id} lock.outcome=timeout = 2",
    ]);
    assert_eq!(lines.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected);
}
