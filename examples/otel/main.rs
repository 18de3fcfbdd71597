//! How do I see the metrics and traces of locks in an OpenTelemetry collector?
//!
//! Sends both over HTTP to `OTEL_EXPORTER_OTLP_ENDPOINT`, by default `http://localhost:4318`. A collector that shows
//! them: `docker run -p 3000:3000 -p 4318:4318 grafana/otel-lgtm`.

use lock_core::{LockError, LockFactory, LockName, MemoryBackend, observer::OtelObserver};
use opentelemetry::{metrics::MeterProvider, trace::TracerProvider};
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::{Resource, metrics::SdkMeterProvider, trace::SdkTracerProvider};
use std::{error::Error, time::Duration};
use tracing::{Instrument, Level, info_span};
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let service = Resource::builder().with_service_name("shop").build();
    let metrics = SdkMeterProvider::builder()
        .with_periodic_exporter(MetricExporter::builder().with_http().build()?)
        .with_resource(service.clone())
        .build();
    let traces = SdkTracerProvider::builder()
        .with_batch_exporter(SpanExporter::builder().with_http().build()?)
        .with_resource(service)
        .build();

    // The span of an acquire, `lock.acquire`, has the level debug.
    let spans = Targets::new().with_default(Level::INFO).with_target("lock_core", Level::DEBUG);
    let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer("shop")).with_filter(spans);
    tracing_subscriber::registry().with(layer).init();

    let observer = OtelObserver::new(&metrics.meter("shop")).classify(class);
    let locks = LockFactory::builder(MemoryBackend::new()).observer(observer).build()?;
    for order in 1..=2 {
        sell(&locks).instrument(info_span!("order", order)).await?;
    }
    locks.shutdown().await;

    // Both flush the remaining data. They block, so they do not run in a task of the runtime.
    tokio::task::spawn_blocking(move || traces.shutdown().and(metrics.shutdown())).await??;
    println!("sent the metrics and traces of 2 orders");
    Ok(())
}

async fn sell(locks: &LockFactory) -> Result<(), LockError> {
    let guard = locks.named("stock:42")?.acquire().await?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    println!("{:?}", guard.release().await);
    Ok(())
}

/// Names are unbounded, so metrics only have their classes as an attribute.
fn class(name: &LockName) -> &'static str {
    if name.as_str().starts_with("stock:") { "stock" } else { "other" }
}
