//! The simulation: seeds that hold, runs that repeat, bugs that are found.

mod bugs;
mod quorum;
mod seeds;
