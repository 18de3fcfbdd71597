//! Locks in MariaDB.

mod conformance;
mod fences;
mod servers;
pub(crate) mod support;
mod transactions;
