//! Locks in PostgreSQL.

mod conformance;
mod faults;
mod fences;
mod poolers;
mod refused;
mod rules;
pub(crate) mod support;
mod transactions;
