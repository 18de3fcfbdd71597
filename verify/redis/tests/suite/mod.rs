//! The Redis backend on real servers, one per test. The client is that of the test binary, `crate::client`.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod acknowledged;
mod altered;
mod batches;
mod callers;
mod cards;
mod cluster;
mod conformance;
mod connecting;
mod counterexamples;
mod executors;
mod foreign;
mod golden;
mod heartbeats;
mod links;
mod listing;
mod no_lock;
mod out_of_step;
mod outage;
mod quorum;
mod records;
mod releases;
mod renewing;
mod replicas;
mod restarts;
mod rounds;
mod same_answers;
mod sentinel;
mod sets;
mod starting;
pub(crate) mod support;
#[cfg(feature = "tls")]
mod tls;
mod waking;
