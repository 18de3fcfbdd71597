//! A cluster of three masters and three replicas, all of them plain processes.

mod conformance;
mod failing;
mod moving;
mod refusing;
mod routing;
