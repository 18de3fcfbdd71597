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
//! A lost lock is logged at debug level in this span, and as an error by lock-core. No field of the span contains the key itself, but a
//! [`LockError`](lock_core::LockError) in an event or in the log contains the name of the lock.

mod event;
mod observers;
#[cfg(feature = "otel")]
mod otel;
mod trace;

pub use event::{Disposition, IdempotencyOutcome, LayerEvent, LayerObserver};
#[cfg(feature = "otel")]
pub use otel::OtelLayerObserver;

pub(crate) use observers::{ObserverList, Observers, elapsed};
