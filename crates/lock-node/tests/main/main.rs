//! What only several processes can show: their kills and pauses are real.

mod clocks;
mod counting;
mod killing;
mod support;
