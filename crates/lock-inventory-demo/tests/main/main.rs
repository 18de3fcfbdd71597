//! Integration tests of the application.

// Shared test code may also unwrap.
#![allow(clippy::unwrap_used)]

mod audit;
mod audit_command;
mod balancer;
mod catalogue;
#[cfg(target_os = "linux")] // like `serve`
mod commands;
mod dashboard;
mod fleet;
mod idempotency;
mod jobs;
mod load;
mod program;
mod report;
mod routes;
mod run;
mod sale;
mod scenarios;
#[cfg(target_os = "linux")] // reads /proc
mod serve;
mod store;
mod support;
