//! Tests that need several processes: kills and pauses are real.

mod at_rest;
mod books;
mod counting;
mod cron;
mod fleet;
mod fleet_node;
#[cfg(unix)]
mod forked;
mod groups;
mod instances;
mod large_group;
mod leaders;
mod life;
mod load;
mod place;
mod refereeing;
mod spread;
mod store;
mod support;
