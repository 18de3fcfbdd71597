//! Tests of the layer's guarantees. They use virtual time and scripted faults where possible, and
//! real servers, connections and processes where necessary.

#![allow(clippy::unwrap_used)]

mod allocations;
mod annotation;
mod body_key;
mod buffer;
mod detach;
mod extractors;
mod handlers;
#[cfg(feature = "idempotency")]
mod idempotency;
mod in_handler;
mod keys;
mod log_lines;
mod lost;
mod max_hold;
#[cfg(feature = "otel")]
mod metrics;
mod names;
mod observers;
mod permits;
mod placement;
mod processes;
mod release;
mod responses;
mod service;
mod several_keys;
mod shadow;
mod spans;
mod streams;
mod support;
mod suspend;
mod waiters;
