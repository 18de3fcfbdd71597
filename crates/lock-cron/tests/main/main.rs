//! Tests of the scheduler: in virtual time with planned faults, and in real time on real servers.

mod backfills;
mod building;
mod cancelling;
#[cfg(feature = "axum")]
mod console;
mod controls;
mod data_loss;
mod deployment;
mod durations;
mod faults;
mod fleet;
mod kinds;
mod leadership;
mod leases;
mod log;
#[cfg(feature = "otel")]
mod metrics;
mod misfires;
mod overdue;
mod overlap;
mod panics;
mod payloads;
mod pools;
mod reports;
mod rollout;
mod runs;
mod spread;
mod suspension;
mod ticks;
