//! A process that takes locks and reports; see `--help`.

use clap::Parser;
use lock_trials::{cli::Cli, node};
use std::{iter::successors, process::ExitCode};

#[tokio::main]
async fn main() -> ExitCode {
    match node::run(&Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            for cause in successors(error.source(), |&error| error.source()) {
                eprintln!("caused by: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}
