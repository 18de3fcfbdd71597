//! The simulation: seeds that pass, runs that repeat, and planted bugs that are found.

mod bugs;
mod quorum;
mod seeds;
mod support;
