//! A flash sale without and with the distributed lock; see `--help`.

use clap::Parser;
use lock_inventory_demo::{cli::Cli, run};
use std::{error::Error, io::stdout, iter::successors, process::ExitCode};

#[tokio::main]
async fn main() -> ExitCode {
    let (cli, mut out) = (Cli::parse(), stdout());
    // Ctrl-C drops the run, and with it the temporary database.
    let ended = tokio::select! {
        ended = run(&cli, &mut out) => ended,
        _ = tokio::signal::ctrl_c() => return ExitCode::from(130),
    };
    match ended {
        Ok(verdict) if verdict.is_proven() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            for cause in successors(error.source(), |&error| error.source()) {
                eprintln!("caused by: {cause}");
            }
            ExitCode::from(2)
        }
    }
}
