//! The scheduler: in virtual time with faults planned, and in real time on real servers.

mod building;
mod deploying;
mod durations;
mod failing;
mod fleet;
mod leading;
mod leases;
#[cfg(feature = "otel")]
mod metrics;
mod missing;
mod ordering;
mod overlapping;
#[cfg(feature = "axum")]
mod page;
mod panicking;
mod running;
mod stopped;
mod telling;
