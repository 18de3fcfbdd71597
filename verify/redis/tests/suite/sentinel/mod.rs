//! One master, two replicas and three sentinels, all separate processes.

mod conformance;
mod following;
mod refusing;
