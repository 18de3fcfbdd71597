//! What only several processes can show: their kills and pauses are real.

mod counting;
mod cron;
mod leaders;
mod load;
mod refereeing;
mod support;
