//! A flash sale without and with the distributed lock, and the shop behind it; see `--help`.

use clap::Parser;
use lock_inventory_demo::{
    cli::{Cli, Command},
    quick, serve,
};
use std::{error::Error, io::stdout, iter::successors, process::ExitCode};

#[tokio::main]
async fn main() -> ExitCode {
    let ended = match Cli::parse() {
        Cli { command: Some(Command::Serve(options)), .. } => serve(options).await,
        Cli { command: None, quick } => tokio::select! {
            ended = sell(quick) => ended,
            code = asked_to_stop() => return code,
        },
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        for cause in successors(error.source(), |&error| error.source()) {
            eprintln!("caused by: {cause}");
        }
        ExitCode::from(2)
    })
}

type Ended = Result<ExitCode, Box<dyn Error>>;

async fn sell(options: lock_inventory_demo::cli::Quick) -> Ended {
    let verdict = quick::run(options.options()?, &mut stdout()).await?;
    Ok(if verdict.is_proven() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

async fn serve(options: lock_inventory_demo::cli::Serve) -> Ended {
    let stop = serve::asked_to_stop(options.until_stdin_ends)?;
    serve::run(options.config()?, stop).await?;
    Ok(ExitCode::SUCCESS)
}

/// Ctrl-C, or SIGTERM where there is such a thing. Dropping the run removes its database.
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
