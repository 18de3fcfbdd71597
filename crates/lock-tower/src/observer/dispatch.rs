//! The observers of a request: its span with the fields that events record, and the observers of its layer.

use super::{LayerEvent, LayerObserver};
use crate::reject::KeyHash;
use lock_core::{__private::notify_all, FencingToken, LostReason};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tracing::{Span, field::Empty};

/// The observers of a layer: `None` if there are none, so that a clone for each request costs nothing.
pub(crate) type ObserverList = Option<Arc<[Arc<dyn LayerObserver>]>>;

/// A layer's observers, with the data shared by the events of one request. `None` if the layer has no observers and the
/// request's span is disabled, so that such a request carries and clones nothing.
#[derive(Debug, Clone)]
pub(crate) struct Observers(Option<Arc<Observed>>);

#[derive(Debug)]
struct Observed {
    observers: ObserverList,
    route: Option<Arc<str>>,
    span: Span,
}

static NO_SPAN: Span = Span::none();

impl Observers {
    /// Opens a request's span, as a child of the current one. The route is looked up if anybody is interested in it.
    pub(crate) fn new<'a>(observers: ObserverList, route: &dyn Fn() -> Option<&'a str>) -> Self {
        let span = open_span(route);
        let nobody = observers.is_none() && span.is_disabled();
        Self((!nobody).then(|| {
            // An owned route costs an allocation, and only observers need it.
            let route = observers.as_ref().and_then(|_| route()).map(Arc::from);
            Arc::new(Observed { observers, route, span })
        }))
    }

    /// Returns the span of the request.
    pub(crate) fn span(&self) -> &Span {
        self.0.as_ref().map_or(&NO_SPAN, |observed| &observed.span)
    }

    /// Reads the clock, if an observer or the span will use the elapsed time.
    pub(crate) fn now(&self) -> Option<Instant> {
        self.0.is_some().then(Instant::now)
    }

    /// Records the hash of the key, if the span is enabled.
    pub(crate) fn record_key(&self, hash: impl FnOnce() -> KeyHash) {
        if !self.span().is_disabled() {
            self.span().record("lock.key_hash", tracing::field::display(hash()));
        }
    }

    /// Records the fencing token of the lock.
    pub(crate) fn record_token(&self, token: FencingToken) {
        if let Some(observed) = &self.0 {
            observed.span.record("lock.token", token.get());
        }
    }

    /// Builds an event with the route and dispatches it. Without observers and a span, only losses are logged.
    pub(crate) fn notify<'a>(&'a self, make: impl FnOnce(Option<&'a Arc<str>>) -> LayerEvent<'a>) {
        let observed = self.0.as_deref();
        let event = make(observed.and_then(|observed| observed.route.as_ref()));
        if observed.is_none() && !matches!(event, LayerEvent::Lost { .. }) {
            return;
        }
        let observers = observed.and_then(|observed| observed.observers.as_deref()).unwrap_or_default();
        notify_all(observers, || record(self.span(), &event), |observer| observer.on_event(&event));
    }
}

/// Returns the time since [`Observers::now`], or zero if it is not used.
pub(crate) fn elapsed(since: Option<Instant>) -> Duration {
    since.as_ref().map_or(Duration::ZERO, Instant::elapsed)
}

fn open_span<'a>(route: &dyn Fn() -> Option<&'a str>) -> Span {
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

fn record(span: &Span, event: &LayerEvent<'_>) {
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
