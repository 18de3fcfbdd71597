//! OpenTelemetry metrics, exported as Prometheus text.

use super::Counters;
use opentelemetry::{
    KeyValue,
    metrics::{Meter, MeterProvider},
};
use opentelemetry_sdk::{Resource, error::OTelSdkError, metrics::SdkMeterProvider};
use prometheus::{Registry, TextEncoder};
use std::sync::Arc;

/// The instruments of a shop, and the registry that exports them.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    meter: Meter,
    /// Keeps the instruments active.
    _provider: SdkMeterProvider,
}

/// A failure to set up or export the metrics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// The exporter could not be created.
    #[error("could not create the metrics exporter")]
    Exporter(#[from] OTelSdkError),
    /// The text could not be written.
    #[error("could not encode the metrics as text")]
    Text(#[from] prometheus::Error),
}

impl Metrics {
    pub(super) fn new(shop: &str, counters: &Arc<Counters>) -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter().with_registry(registry.clone()).build()?;
        let resource = Resource::builder().with_service_name(shop.to_owned()).build();
        let provider = SdkMeterProvider::builder().with_reader(exporter).with_resource(resource).build();
        let meter = provider.meter("shop");
        let counters = Arc::clone(counters);
        let _registered = meter
            .u64_observable_counter("shop.orders")
            .with_description("Orders by outcome")
            .with_callback(move |observe| {
                let now = counters.now();
                for (outcome, count) in
                    [("accepted", now.orders), ("sold_out", now.sold_out), ("stale", now.stale)]
                {
                    observe.observe(count, &[KeyValue::new("outcome", outcome)]);
                }
            })
            .build();
        Ok(Self { registry, meter, _provider: provider })
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns all metrics in the Prometheus text format.
    pub(crate) fn text(&self) -> Result<String, MetricsError> {
        Ok(TextEncoder::new().encode_to_string(&self.registry.gather())?)
    }
}
