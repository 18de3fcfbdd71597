//! The metrics recorded by the OpenTelemetry observer.

use crate::fleet::Fleet;
use lock_core::{LockFactory, clock::TestClock};
use lock_cron::{Schedule, Scheduler, observer::OtelCronObserver};
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
    data::{AggregatedMetrics, MetricData},
};
use std::{collections::BTreeMap, time::Duration};

/// Returns the name and attributes of each sum, with its value.
fn sums(exporter: &InMemoryMetricExporter) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    let exported = exporter.get_finished_metrics().expect("exported");
    let last = exported.last().expect("an export");
    for metric in last.scope_metrics().flat_map(|scope| scope.metrics()) {
        let name = metric.name();
        let mut note = |attributes: Vec<String>, value: i64| {
            found.insert(format!("{name} {}", attributes.join(" ")), value);
        };
        let words = |attributes: &mut dyn Iterator<Item = &opentelemetry::KeyValue>| {
            let mut words: Vec<_> = attributes.map(|pair| pair.value.to_string()).collect();
            words.sort();
            words
        };
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => sum.data_points().for_each(|point| {
                note(words(&mut point.attributes()), i64::try_from(point.value()).expect("few"));
            }),
            AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                sum.data_points().for_each(|point| note(words(&mut point.attributes()), point.value()));
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                histogram.data_points().for_each(|point| {
                    note(words(&mut point.attributes()), i64::try_from(point.count()).expect("few"));
                });
            }
            AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                gauge
                    .data_points()
                    .for_each(|point| note(words(&mut point.attributes()), point.value() as i64));
            }
            _ => {}
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn starts_skips_lags_and_durations_are_recorded() {
    let exporter = InMemoryMetricExporter::default();
    let provider =
        SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter.clone()).build()).build();
    let meter = opentelemetry::metrics::MeterProvider::meter(&provider, "test");
    let fleet = Fleet::new();
    let locks =
        LockFactory::builder(fleet.memory.clone()).clock(fleet.clock.clone()).build().expect("valid options");
    let cron = Scheduler::builder(locks, fleet.ledger.clone())
        .group("g")
        .observer(OtelCronObserver::new(&meter))
        .build()
        .expect("valid options");
    let body = |_| async {
        tokio::time::sleep(Duration::from_millis(2_950)).await;
        Ok(())
    };
    cron.job("job", Schedule::cron("* * * * * *").expect("valid schedule"), body)
        .register()
        .expect("in-memory store");
    cron.run_until(tokio::time::sleep(Duration::from_millis(30_500))).await.expect("clean shutdown");
    provider.force_flush().expect("exported");
    let sums = sums(&exporter);
    let of = |name: &str| sums.get(name).copied().unwrap_or_else(|| panic!("{name} is recorded: {sums:?}"));
    let leader = sums.iter().find(|(name, _)| name.starts_with("cron.leader ")).expect("recorded");
    assert_eq!(*leader.1, 0, "it led and no longer leads: {sums:?}");
    assert_eq!((of("cron.start g job"), of("cron.start.lag g")), (10, 10));
    assert_eq!(of("cron.skipped g job overlap"), 20);
    assert_eq!(of("cron.run.duration g job succeeded"), 10);
    assert_eq!(of("cron.clock.offset g"), 0);
}

#[tokio::test(start_paused = true)]
async fn lag_of_a_catch_up_run_is_not_recorded() {
    let exporter = InMemoryMetricExporter::default();
    let provider =
        SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter.clone()).build()).build();
    let meter = opentelemetry::metrics::MeterProvider::meter(&provider, "test");
    let fleet = Fleet::new();
    let first = fleet.simple("a", "0 * * * *", Duration::ZERO).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.stop().await;
    tokio::time::sleep(Duration::from_secs(7_200 - 61)).await;
    let locks = LockFactory::builder(fleet.memory.clone()).clock(fleet.clock.clone()).build();
    let cron = Scheduler::builder(locks.expect("valid options"), fleet.ledger.clone()).group("g");
    let cron = cron.observer(OtelCronObserver::new(&meter)).build().expect("valid options");
    let job = cron.job("job", Schedule::cron("0 * * * *").expect("valid schedule"), |_| async { Ok(()) });
    job.register().expect("in-memory store");
    cron.run_until(tokio::time::sleep(Duration::from_secs(120))).await.expect("clean shutdown");
    provider.force_flush().expect("exported");
    let sums = sums(&exporter);
    assert_eq!(
        (sums.get("cron.start g job"), sums.get("cron.start.lag g")),
        (Some(&2), Some(&1)),
        "{sums:?}"
    );
}

/// Returns the names and attributes of all series after this many instances that run once.
async fn series_after(instances: u32) -> Vec<String> {
    let exporter = InMemoryMetricExporter::default();
    let provider =
        SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter.clone()).build()).build();
    let meter = opentelemetry::metrics::MeterProvider::meter(&provider, "test");
    let fleet = Fleet::new();
    let locks = LockFactory::builder(fleet.memory.clone()).clock(fleet.clock.clone()).build();
    let cron = Scheduler::builder(locks.expect("valid options"), fleet.ledger.clone()).group("g");
    let cron = cron.observer(OtelCronObserver::new(&meter)).build().expect("valid options");
    let kind = cron.kind("import", |_| async { Ok(()) }).alert_after(Duration::from_secs(60));
    kind.register().expect("valid kind");
    let due = TestClock::WALL_AT_START + Duration::from_secs(5);
    for number in 0..instances {
        cron.once("import", &format!("order-{number}"), due, &number).await.expect("in-memory store");
    }
    cron.run_until(tokio::time::sleep(Duration::from_secs(60))).await.expect("clean shutdown");
    provider.force_flush().expect("exported");
    let sums = sums(&exporter);
    assert_eq!(sums.get("cron.start g import/*"), Some(&i64::from(instances)), "{sums:?}");
    sums.into_keys().collect()
}

#[tokio::test(start_paused = true)]
async fn thousand_instances_have_the_series_of_one() {
    assert_eq!(series_after(1_000).await, series_after(1).await);
}
