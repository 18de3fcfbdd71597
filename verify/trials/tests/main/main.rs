//! Tests that need several processes: kills and pauses are real.

mod counting;
mod cron;
mod fleet_node;
mod groups;
mod instances;
mod leaders;
mod load;
mod refereeing;
mod support;
