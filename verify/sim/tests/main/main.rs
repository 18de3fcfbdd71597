//! The simulation: seeds that hold, runs that repeat, bugs that are found.

mod bugs;
mod seeds;
