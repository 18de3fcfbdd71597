//! A flash sale without and with the distributed lock, and tools around it. See `--help`.

use clap::Parser;
use flash_sale::cli::{Cli, FAILED};
use std::{io::stdout, iter::successors, process::ExitCode};

#[tokio::main]
async fn main() -> ExitCode {
    Cli::parse().run(&mut stdout()).await.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        for cause in successors(error.source(), |&error| error.source()) {
            eprintln!("caused by: {cause}");
        }
        ExitCode::from(FAILED)
    })
}
