//! A cluster of three masters and three replicas, each a separate process.

pub(super) mod conformance;
mod failing;
mod moving;
mod refusing;
mod routing;
mod starting;
