//! The events of locks: passed to custom observers, recorded as OpenTelemetry metrics, and emitted as `tracing` events
//! and spans.
//!
//! Each acquire has a debug-level span `lock.acquire`, a child of the span in which its future is first polled. It ends
//! with the future, including when the future is dropped:
//!
//! | field | value |
//! | --- | --- |
//! | `lock.name` | the name of the lock |
//! | `lock.backend` | the short name of the backend |
//! | `lock.outcome` | the metric value of the [`AcquireOutcome`] |
//! | `lock.waited` | seconds from the first poll to this outcome |
//! | `lock.token` | the fencing token, if the lock was acquired |
//!
//! Metrics never contain lock names; `tracing` events and spans do.

pub(crate) mod event;
#[cfg(feature = "otel")]
pub(crate) mod otel;
mod trace;

pub use crate::machine::{GrantSource, RenewalOutcome};
pub use event::{AcquireOutcome, LockEvent, LockEventKind, LockObserver, ReleaseKind, TermEnd, WakeSource};
#[cfg(feature = "otel")]
pub use otel::OtelObserver;
pub(crate) use trace::{AcquireSpan, Notable, sum_up};

use crate::{clock::Clock, name::LockName, time::Moment};
use event::notify_all;
use std::sync::Arc;
use trace::{Digest, Sum};

/// The observers of a factory, and the name of its backend.
#[derive(Debug)]
pub(crate) struct Observers {
    observers: Vec<Arc<dyn LockObserver>>,
    backend: &'static str,
    digest: Digest,
}

impl Observers {
    pub(crate) fn new(
        observers: Vec<Arc<dyn LockObserver>>,
        backend: &'static str,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { observers, backend, digest: Digest::new(clock) }
    }

    /// Returns the short name of the backend.
    pub(crate) fn backend(&self) -> &'static str {
        self.backend
    }

    /// Dispatches an event. Returns the time at which to [sum up](Self::take_due), if that is new.
    pub(crate) fn notify(&self, name: &LockName, kind: LockEventKind<'_>) -> Option<Moment> {
        let event = LockEvent { backend: self.backend, name, kind };
        let mut sum_up_at = None;
        let log = || sum_up_at = trace::event(&event, &self.digest);
        notify_all(&self.observers, log, |observer| observer.on_event(&event));
        sum_up_at
    }

    /// Logs a line that is no event for observers. Returns the time at which to sum up, if that is new.
    pub(crate) fn log(&self, notable: &Notable<'_>) -> Option<Moment> {
        let mut sum_up_at = None;
        notify_all::<()>(&[], || sum_up_at = trace::notable(notable, &self.digest), |()| ());
        sum_up_at
    }

    /// Returns the time at which to sum up.
    pub(crate) fn next_sum(&self) -> Option<Moment> {
        self.digest.next()
    }

    /// Returns the warnings to sum up at `now`.
    pub(crate) fn take_due(&self, now: Moment) -> Vec<Sum> {
        self.digest.take_due(now)
    }
}
