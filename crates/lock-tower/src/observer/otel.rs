//! This crate's metrics as OpenTelemetry instruments.

use super::{LayerEvent, LayerObserver};
use lock_core::__private::Instruments;
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Histogram, Meter},
};
use std::{fmt, time::Duration};

/// An observer that records metrics on the application's `Meter`. It only uses the OpenTelemetry
/// API; the application chooses the SDK.
///
/// | instrument | kind, unit | attributes besides `http.route` |
/// | --- | --- | --- |
/// | `lock.http.requests` | counter | `lock.outcome`, `lock.disposition` |
/// | `lock.http.lost` | counter | |
/// | `lock.http.idempotency` | counter | `idempotency.outcome`, see [`IdempotencyOutcome`](super::IdempotencyOutcome) |
/// | `lock.http.wait.duration` | histogram, s | `lock.outcome` |
/// | `lock.http.hold.duration` | histogram, s | |
///
/// `lock.outcome` is `acquired`, `cancelled`, or the value of a [`RejectReason`](crate::RejectReason::as_str):
/// `contended`, `timeout`, `overloaded`, `backend_error`, `bad_key`, `key_unavailable`, `no_route`, `misconfigured` or
/// `shut_down`. `lock.disposition` is `served`, `rejected`, `passed_through`, or `none` for a cancelled request.
///
/// `http.route` is the route's template, never the path. Keys are never attributes, since they are
/// unbounded.
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
    idempotency: Counter<u64>,
    wait: Histogram<f64>,
    hold: Histogram<f64>,
}

impl OtelLayerObserver {
    /// Creates the instruments on this meter.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let make = Instruments(meter);
        Self {
            requests: make.counter("lock.http.requests", "Requests that needed a lock"),
            lost: make.counter("lock.http.lost", "Requests whose lock was lost before they ended"),
            idempotency: make.counter("lock.http.idempotency", "Requests with an idempotency key"),
            wait: make.seconds(
                "lock.http.wait.duration",
                "From the arrival of a request until it has its lock or is rejected",
            ),
            hold: make.seconds(
                "lock.http.hold.duration",
                "From the acquisition of a request's lock to the end of the hold",
            ),
        }
    }
}

impl fmt::Debug for OtelLayerObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtelLayerObserver").finish_non_exhaustive()
    }
}

impl LayerObserver for OtelLayerObserver {
    fn on_event(&self, event: &LayerEvent<'_>) {
        let route = event.route().map(|route| KeyValue::new("http.route", route.clone()));
        let with = |more: &[(&'static str, &'static str)]| -> Vec<KeyValue> {
            let more = more.iter().map(|(key, value)| KeyValue::new(*key, *value));
            route.clone().into_iter().chain(more).collect()
        };
        let decided = |outcome: &'static str, disposition: &'static str, waited: Duration| {
            self.requests.add(1, &with(&[("lock.outcome", outcome), ("lock.disposition", disposition)]));
            self.wait.record(waited.as_secs_f64(), &with(&[("lock.outcome", outcome)]));
        };
        match *event {
            LayerEvent::Acquired { waited, .. } => decided("acquired", "served", waited),
            LayerEvent::NotAcquired { reason, waited, disposition, .. } => {
                decided(reason.as_str(), disposition.as_str(), waited);
            }
            LayerEvent::Cancelled { waited, .. } => decided("cancelled", "none", waited),
            LayerEvent::Lost { .. } => self.lost.add(1, &with(&[])),
            LayerEvent::Idempotency { outcome, .. } => {
                self.idempotency.add(1, &with(&[("idempotency.outcome", outcome.as_str())]));
            }
            LayerEvent::Ended { held, .. } => self.hold.record(held.as_secs_f64(), &with(&[])),
        }
    }
}
