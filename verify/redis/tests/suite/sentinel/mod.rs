//! A master that sentinels watch: one master, two replicas, three sentinels, all of them plain processes.

mod conformance;
mod following;
mod refusing;
