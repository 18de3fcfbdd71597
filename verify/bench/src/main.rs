//! Measures what a lock costs: beside the floor, the least that a lock on Redis can cost on the same client, and beside
//! another library.
//!
//! All contestants of a case run in one invocation, in turns whose order changes from round to round. Each run has a
//! server and processes of its own. Figures are medians over rounds, ratios are medians of the ratios of rounds.

mod child;
mod cli;
mod contestants;
mod jobs;
mod load;
mod measure;
mod metric;
mod order;
mod report;
mod runner;
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
