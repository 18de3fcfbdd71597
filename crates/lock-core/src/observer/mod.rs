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

mod digest;
mod event;
mod observers;
#[cfg(feature = "otel")]
mod otel;
mod outcome;
mod span;
mod trace;

pub use crate::machine::{GrantSource, ReleaseAnswer, Unconfirmed};
pub use event::{LockEvent, LockObserver};
#[cfg(feature = "otel")]
pub use otel::{Instruments, OtelObserver};
pub use outcome::{AcquireOutcome, ReleaseKind, RenewalOutcome, TermEnd, WakeSource};

pub(crate) use observers::Observers;
pub use observers::notify_all;
pub(crate) use span::AcquireSpan;
pub(crate) use trace::{Notable, sum_up};
