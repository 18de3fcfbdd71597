//! A flash sale without and with the distributed lock; see `--help`.

use clap::Parser;
use lock_inventory_demo::{cli::Cli, run, sale};
use std::{error::Error, io::stdout, iter::successors, process::ExitCode};

#[tokio::main]
async fn main() -> ExitCode {
    let (cli, mut out) = (Cli::parse(), stdout());
    if let Some(database) = &cli.shop_process {
        return sale::serve(database).await;
    }
    // A signal drops the run, and with it its processes, its Redis and the temporary database.
    let ended = tokio::select! {
        ended = run(&cli, &mut out) => ended,
        code = asked_to_stop() => return code,
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

/// Ctrl-C, or SIGTERM where there is such a thing.
async fn asked_to_stop() -> ExitCode {
    #[cfg(unix)]
    if let Ok(mut term) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        return tokio::select! {
            _ = tokio::signal::ctrl_c() => ExitCode::from(130),
            _ = term.recv() => ExitCode::from(143),
        };
    }
    let _ = tokio::signal::ctrl_c().await;
    ExitCode::from(130)
}
