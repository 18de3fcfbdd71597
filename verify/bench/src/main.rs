//! Measures the cost of locks, compared with the *floor*, a minimal lock on Redis over the same client, and with
//! another library.
//!
//! All contestants of a case run in one invocation and take turns, in an order that changes from round to round. Each
//! turn has its own server and processes. Figures are medians over rounds, and ratios are medians of the rounds'
//! ratios.

mod cli;
mod contestants;
mod jobs;
mod load;
mod machine;
mod metric;
mod order;
mod report;
mod requests;
mod runner;
mod sections;
mod workloads;

use clap::Parser;
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lock-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
