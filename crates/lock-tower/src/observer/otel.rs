//! The metrics of this crate as OpenTelemetry instruments.

use super::event::{Disposition, LayerEvent, LayerObserver};
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Histogram, Meter},
};
use std::{fmt, sync::Arc, time::Duration};

/// Bucket boundaries of both durations, in seconds: 0.5 ms to 30 s, as those of lock-core.
const SECONDS: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Records metrics on a `Meter` of the application; only the OpenTelemetry API is used, the SDK is yours.
///
/// | instrument | kind, unit | attributes beside `http.route` |
/// | --- | --- | --- |
/// | `lock.http.requests` | counter | `lock.outcome`: acquired, contended, timeout, overloaded, backend_error, bad_key, key_unavailable, misconfigured, shut_down, left; `lock.disposition`: served, rejected, passed_through, none |
/// | `lock.http.lost` | counter | |
/// | `lock.http.wait.duration` | histogram, s | `lock.outcome` |
/// | `lock.http.hold.duration` | histogram, s | |
///
/// `http.route` is the template of the route, never the path; keys are never an attribute, since they are unbounded.
///
/// ```
/// use lock_core::{LockFactory, MemoryBackend};
/// use lock_tower::{LockLayer, observer::OtelLayerObserver};
///
/// let meter = opentelemetry::global::meter("shop");
/// let locks = LockFactory::new(MemoryBackend::new());
/// let layer = LockLayer::new(locks).key("report").observer(OtelLayerObserver::new(&meter));
/// ```
pub struct OtelLayerObserver {
    requests: Counter<u64>,
    lost: Counter<u64>,
    wait: Histogram<f64>,
    hold: Histogram<f64>,
}

impl OtelLayerObserver {
    /// Makes the instruments.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, about: &'static str| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(about);
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        let count =
            |name: &'static str, about: &'static str| meter.u64_counter(name).with_description(about).build();
        Self {
            requests: count("lock.http.requests", "Requests that needed a lock"),
            lost: count("lock.http.lost", "Requests whose lock was lost before they ended"),
            wait: seconds(
                "lock.http.wait.duration",
                "From the arrival of a request to its lock, or its refusal",
            ),
            hold: seconds("lock.http.hold.duration", "From the lock of a request to its release"),
        }
    }
}

impl fmt::Debug for OtelLayerObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtelLayerObserver").finish_non_exhaustive()
    }
}

impl LayerObserver for OtelLayerObserver {
    fn observe(&self, route: Option<&Arc<str>>, event: &LayerEvent<'_>) {
        let route = route.map(|route| KeyValue::new("http.route", route.clone()));
        let with = |more: &[(&'static str, &'static str)]| -> Vec<KeyValue> {
            let more = more.iter().map(|(key, value)| KeyValue::new(*key, *value));
            route.clone().into_iter().chain(more).collect()
        };
        let asked = |outcome: &'static str, disposition: &'static str, waited: Duration| {
            self.requests.add(1, &with(&[("lock.outcome", outcome), ("lock.disposition", disposition)]));
            self.wait.record(waited.as_secs_f64(), &with(&[("lock.outcome", outcome)]));
        };
        match *event {
            LayerEvent::Acquired { waited } => asked("acquired", "served", waited),
            LayerEvent::NotAcquired { reason, waited, disposition } => {
                let disposition = match disposition {
                    Disposition::Rejected => "rejected",
                    Disposition::PassedThrough => "passed_through",
                };
                asked(reason.as_str(), disposition, waited);
            }
            LayerEvent::Left { waited } => asked("left", "none", waited),
            LayerEvent::Lost { .. } => self.lost.add(1, &with(&[])),
            LayerEvent::Ended { held } => self.hold.record(held.as_secs_f64(), &with(&[])),
        }
    }
}
