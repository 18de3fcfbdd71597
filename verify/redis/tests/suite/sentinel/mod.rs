//! One master, two replicas and three sentinels, each a separate process.

mod conformance;
mod following;
mod refusing;
