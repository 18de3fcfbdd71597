//! What the layer promises, shown on its own terms: virtual time and scripted faults where they do, real servers,
//! connections and processes where those are the point.

#![allow(clippy::unwrap_used)]

mod asleep;
mod contract;
mod costs;
mod crowd;
mod detach;
mod events;
mod extractors;
mod keys;
mod lost;
#[cfg(feature = "otel")]
mod metrics;
mod placement;
mod processes;
mod releases;
mod shadow;
mod slow;
mod spans;
mod streams;
mod support;
