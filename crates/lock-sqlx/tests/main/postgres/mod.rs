//! Locks in PostgreSQL.

mod clients;
mod conformance;
mod connections;
mod failovers;
mod faults;
mod fences;
mod permits;
mod poolers;
mod refused;
pub(crate) mod support;
mod transactions;
mod wake_ups;
