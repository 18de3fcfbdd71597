//! Integration tests of the application.

// Shared test code may also unwrap.
#![allow(clippy::unwrap_used)]

mod audit_command;
mod balancer;
mod commands;
mod dashboard;
mod fleet;
mod load;
mod program;
mod report;
mod run;
mod scenarios;
mod serve;
mod strategies;
mod support;
