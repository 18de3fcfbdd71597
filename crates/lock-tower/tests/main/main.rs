//! What the layer promises, shown on its own terms: virtual time and scripted faults where they do, real servers,
//! connections and processes where those are the point.

#![allow(clippy::unwrap_used)]

mod allocations;
mod buffer;
mod detach;
mod extractors;
mod keys;
mod lost;
mod max_hold;
#[cfg(feature = "otel")]
mod metrics;
mod observers;
mod placement;
mod processes;
mod release;
mod responses;
mod service;
mod shadow;
mod spans;
mod streams;
mod support;
mod suspend;
mod waiters;
