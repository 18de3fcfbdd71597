//! Dispatch of events to a request's span and its layer's observers.

use super::{
    event::{LayerEvent, LayerObserver},
    trace,
};
use crate::reject::KeyHash;
use lock_core::{__private::notify_all, FencingToken};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tracing::Span;

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
        let span = trace::span(route);
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
        notify_all(observers, || trace::event(self.span(), &event), |observer| observer.on_event(&event));
    }
}

/// Returns the time since [`Observers::now`], or zero if it is not used.
pub(crate) fn elapsed(since: Option<Instant>) -> Duration {
    since.as_ref().map_or(Duration::ZERO, Instant::elapsed)
}
