//! A quorum of independent masters, all separate processes.

mod conformance;
mod failing;
mod node;
mod refusing;
mod same_votes;
mod starting;
