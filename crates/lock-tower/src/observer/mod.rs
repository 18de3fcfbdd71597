//! Layer events for custom observers, OpenTelemetry metrics and `tracing` spans.
//!
//! Each request that needs a lock has a span `lock.request`, in which its handler runs and its body is read:
//!
//! | field | value |
//! | --- | --- |
//! | `http.route` | the template of the route, never the path |
//! | `lock.key_hash` | the [`KeyHash`](crate::KeyHash) of the key, once it is known |
//! | `lock.outcome` | `acquired`, `cancelled`, or the [name](crate::RejectReason::as_str) of the rejection reason |
//! | `lock.waited` | seconds from the arrival of the request, or from its handler's request for the lock, to this outcome |
//! | `lock.token` | the fencing token, if the lock was acquired |
//! | `idempotency.outcome` | the value of the [`IdempotencyOutcome`], behind an idempotency layer |
//!
//! A lost lock is logged at debug level in this span, and as an error by lock-core. No field of the span contains the
//! key itself, but a [`LockError`](lock_core::LockError) in an event or in the log contains the name of the lock.

mod dispatch;
#[cfg(feature = "otel")]
mod otel;

pub(crate) use dispatch::{ObserverList, Observers, elapsed};
#[cfg(feature = "otel")]
pub use otel::OtelLayerObserver;

use crate::{policy::WithoutLock, reject::RejectReason};
use lock_core::LostReason;
use std::{fmt::Debug, sync::Arc, time::Duration};

/// An observer of the requests that need a lock. Other requests are not reported.
///
/// It is called in the request's task, including in `Drop`, so it must return quickly and not
/// block. A panic is caught and ends only this call. For the locks' own events, see
/// [`LockObserver`](lock_core::observer::LockObserver).
///
/// ```
/// use lock_core::{LockFactory, MemoryBackend};
/// use lock_tower::{LockLayer, observer::{LayerEvent, LayerObserver}};
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// #[derive(Debug, Default)]
/// struct Losses(AtomicU64);
///
/// impl LayerObserver for Losses {
///     fn on_event(&self, event: &LayerEvent<'_>) {
///         if let LayerEvent::Lost { .. } = event {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let losses = Arc::new(Losses::default()); // keep one to read it
/// let layer = LockLayer::new(LockFactory::new(MemoryBackend::new())).key("report").observer(losses.clone());
/// ```
pub trait LayerObserver: Debug + Send + Sync + 'static {
    /// Called for each event.
    fn on_event(&self, event: &LayerEvent<'_>);
}

impl<O: LayerObserver + ?Sized> LayerObserver for Arc<O> {
    fn on_event(&self, event: &LayerEvent<'_>) {
        (**self).on_event(event);
    }
}

/// An event of a request that needs a lock.
///
/// `route` is axum's matched route, or the one set with
/// [`LockLayer::route`](crate::LockLayer::route). It is never the path or the key.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum LayerEvent<'a> {
    /// The lock was acquired, and the handler is called.
    Acquired {
        /// The template of the route.
        route: Option<&'a Arc<str>>,
        /// The time since the request arrived, or since its handler requested the lock.
        waited: Duration,
    },
    /// The lock was not acquired.
    NotAcquired {
        /// The template of the route.
        route: Option<&'a Arc<str>>,
        /// The reason why the lock was not acquired.
        reason: &'a RejectReason,
        /// The time since the request arrived, or since its handler requested the lock.
        waited: Duration,
        /// The handling of the request without its lock.
        disposition: WithoutLock,
    },
    /// The request was dropped before the outcome was known: its client disconnected, or a timeout
    /// outside the layer expired.
    Cancelled {
        /// The template of the route.
        route: Option<&'a Arc<str>>,
        /// The time since the request arrived, or since its handler requested the lock.
        waited: Duration,
    },
    /// The lock was lost while the handler ran or its body was being sent.
    Lost {
        /// The template of the route.
        route: Option<&'a Arc<str>>,
        /// The reason for the loss.
        reason: LostReason,
    },
    /// An idempotency layer determined the outcome of a request that has its lock. This event is not reported if the
    /// handler is stopped, panics or returns an error.
    Idempotency {
        /// The template of the route.
        route: Option<&'a Arc<str>>,
        /// The outcome of the request.
        outcome: IdempotencyOutcome,
    },
    /// The lock was released or lost. Reported once for each [`Acquired`](Self::Acquired).
    Ended {
        /// The template of the route.
        route: Option<&'a Arc<str>>,
        /// The time since the lock was acquired.
        held: Duration,
    },
}

impl<'a> LayerEvent<'a> {
    /// Returns the template of the route.
    #[must_use]
    pub fn route(&self) -> Option<&'a Arc<str>> {
        match self {
            Self::Acquired { route, .. }
            | Self::NotAcquired { route, .. }
            | Self::Cancelled { route, .. }
            | Self::Lost { route, .. }
            | Self::Idempotency { route, .. }
            | Self::Ended { route, .. } => *route,
        }
    }
}

/// The outcome of a request with an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdempotencyOutcome {
    /// The handler ran, and its response was stored or left to the handler to store.
    Executed,
    /// The stored response was replayed.
    Replayed,
    /// The response declared that no work was done, so it was not stored. A retry runs the handler again.
    NotStarted,
    /// The handler ran, but its response could not be stored. A retry runs it again.
    NotStored,
    /// The key was used for another request.
    KeyReused,
    /// A newer attempt owns the key. This attempt did not run, or its response was dropped.
    Superseded,
    /// Before the handler was called, the store was full, did not respond in time or returned an error, or the lock was
    /// lost.
    Unavailable,
}

impl IdempotencyOutcome {
    /// Returns the value for metrics and log fields.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Replayed => "replayed",
            Self::NotStarted => "not_started",
            Self::NotStored => "not_stored",
            Self::KeyReused => "key_reused",
            Self::Superseded => "superseded",
            Self::Unavailable => "unavailable",
        }
    }
}
