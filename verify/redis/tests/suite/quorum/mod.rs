//! A quorum of independent masters, each a separate process.

mod conformance;
mod failing;
mod node;
mod refusing;
mod same_votes;
mod starting;
