//! The span of an acquire.

use super::outcome::AcquireOutcome;
use crate::{clock::Clock, name::LockName, time::Moment, token::FencingToken};
use std::{fmt, sync::Arc};
use tracing::{Span, field::Empty};

/// The span of an acquire. Its outcome is "cancelled" if it is dropped before [`end`](Self::end).
///
/// If the span is disabled, this is empty: nothing is allocated, and the clock is not read.
#[derive(Debug, Default)]
pub(crate) struct AcquireSpan(Option<Box<Open>>);

struct Open {
    span: Span,
    clock: Arc<dyn Clock>,
    began: Moment,
}

impl AcquireSpan {
    /// Opens the span as a child of the current one.
    pub(crate) fn open(name: &LockName, backend: &'static str, clock: &Arc<dyn Clock>) -> Self {
        let span = tracing::debug_span!(
            "lock.acquire",
            lock.name = name.as_str(),
            lock.backend = backend,
            lock.outcome = Empty,
            lock.waited = Empty,
            lock.token = Empty,
        );
        if span.is_disabled() {
            return Self::default();
        }
        Self(Some(Box::new(Open { span, clock: clock.clone(), began: clock.now() })))
    }

    /// Runs `poll` inside the span.
    pub(crate) fn in_scope<T>(&self, poll: impl FnOnce() -> T) -> T {
        let _entered = self.0.as_ref().map(|open| open.span.enter());
        poll()
    }

    /// Records the fencing token of a grant.
    pub(crate) fn record_token(&self, token: FencingToken) {
        if let Some(open) = &self.0 {
            open.span.record("lock.token", token.get());
        }
    }

    /// Records the outcome and the elapsed time, and closes the span.
    pub(crate) fn end(&mut self, outcome: AcquireOutcome) {
        if let Some(Open { span, clock, began }) = self.0.take().as_deref() {
            let waited = clock.now().since(*began).as_secs_f64();
            span.record("lock.outcome", outcome.as_str()).record("lock.waited", waited);
        }
    }
}

impl Drop for AcquireSpan {
    fn drop(&mut self) {
        self.end(AcquireOutcome::Cancelled);
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AcquireSpan").field(&self.span).finish()
    }
}
