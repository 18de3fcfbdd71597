//! A cluster of three masters and three replicas, all separate processes.

pub(super) mod conformance;
mod failing;
mod moving;
mod refusing;
mod routing;
