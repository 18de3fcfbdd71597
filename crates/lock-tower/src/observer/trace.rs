//! The span of a request that needs a lock, and the fields that its events record.

use super::event::LayerEvent;
use lock_core::LostReason;
use std::time::Duration;
use tracing::{Span, field::Empty};

pub(super) fn span<'a>(route: &dyn Fn() -> Option<&'a str>) -> Span {
    tracing::info_span!(
        "lock.request",
        http.route = route(),
        lock.key_hash = Empty,
        lock.outcome = Empty,
        lock.waited = Empty,
        lock.token = Empty,
        idempotency.outcome = Empty,
    )
}

pub(super) fn event(span: &Span, event: &LayerEvent<'_>) {
    match *event {
        LayerEvent::Acquired { waited, .. } => decided(span, "acquired", waited),
        LayerEvent::NotAcquired { reason, waited, .. } => decided(span, reason.as_str(), waited),
        LayerEvent::Cancelled { waited, .. } => decided(span, "cancelled", waited),
        LayerEvent::Lost { reason: LostReason::ShutDown, .. } => {
            tracing::info!(parent: span, "hold ended: the lock factory was shut down");
        }
        LayerEvent::Lost { reason, .. } => {
            // lock-core reports the loss itself, with the name of the lock.
            tracing::debug!(parent: span, lock.reason = ?reason, "lock lost while its request was being handled");
        }
        LayerEvent::Idempotency { outcome, .. } => {
            span.record("idempotency.outcome", outcome.as_str());
        }
        LayerEvent::Ended { .. } if span.is_disabled() => {}
        LayerEvent::Ended { held, .. } => {
            tracing::debug!(parent: span, held = held.as_secs_f64(), "hold ended");
        }
    }
}

fn decided(span: &Span, outcome: &'static str, waited: Duration) {
    span.record("lock.outcome", outcome).record("lock.waited", waited.as_secs_f64());
}
