//! The command line, one file per command. Errors for invalid input contain a remedy.

mod all;
mod audit;
mod balancer;
mod chaos;
mod load;
mod place;
mod report;
mod secret;
mod serve;

pub use all::All;
pub use audit::Audit;
pub use balancer::Balancer;
pub use chaos::Chaos;
pub use load::Load;
pub use place::Place;
pub use report::Report;
pub use secret::{Secret, UsageError};
pub use serve::Serve;

use clap::{Parser, Subcommand};
use std::{error::Error, io::Write, process::ExitCode};

/// The bench of the shop: several processes sell one stock, with right and wrong strategies, under load and faults.
#[derive(Debug, Clone, Parser)]
#[command(name = "flash-sale", version, after_help = AFTER)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Start several shops with a dashboard, or serve one shop without it (`--headless`)
    Serve(Serve),
    /// Distribute requests over shops, round robin
    Balancer(Balancer),
    /// Place orders at a fixed rate or from a fixed number of clients, and write a journal of their outcomes
    Load(Load),
    /// Run scenarios with injected faults repeatedly, and audit each run
    Chaos(Chaos),
    /// Check orders, stock and money in the databases, and compare them with clients' journals
    Audit(Audit),
    /// Generate report.html from the results.json of an earlier run
    Report(Report),
    /// Run every scenario in real processes and write report.html and results.json
    All(All),
}

/// The result of a command.
pub type Ended = Result<ExitCode, Box<dyn Error + Send + Sync>>;

/// The exit code for a failed expectation.
pub const BROKEN: u8 = 1;
/// The exit code for invalid input or a command that could not finish.
pub const FAILED: u8 = 2;

impl Cli {
    /// Runs the command until it completes or a signal stops it. Results go to `out`, and progress goes to stderr.
    ///
    /// # Errors
    /// Returns the failure that ended the command. The exit code is then [`FAILED`].
    ///
    /// # Cancel safety
    /// Dropping this stops everything that the command started.
    pub async fn run(self, out: &mut (impl Write + Send)) -> Ended {
        match self.command {
            // These commands handle signals themselves.
            Command::Serve(serve) => serve.run(out).await,
            Command::Chaos(chaos) => chaos.run(out).await,
            Command::All(all) => all.run(out).await,
            // The other commands are dropped on a signal.
            Command::Balancer(balancer) => until_stopped(balancer.run(out)).await,
            Command::Load(load) => until_stopped(load.run(out)).await,
            Command::Audit(audit) => until_stopped(audit.run(out)).await,
            Command::Report(report) => report.run(out),
        }
    }
}

async fn until_stopped(command: impl Future<Output = Ended>) -> Ended {
    tokio::select! {
        ended = command => ended,
        code = asked_to_stop() => Ok(code),
    }
}

/// Waits for Ctrl-C, or on Unix also SIGTERM, and returns the signal's exit code.
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

/// Returns the exit code: success if the expectations hold, otherwise [`BROKEN`].
fn verdict(holds: bool) -> ExitCode {
    if holds { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) }
}

const AFTER: &str = "\
Exit codes: 0 if every expectation holds, 1 if one does not hold, 2 if the input is invalid or the run could not finish.

Examples:
  flash-sale serve                      three servers with a dashboard (needs redis-server for more than one)
  flash-sale all --quick                every scenario in real processes, with a report (needs redis-server)
  flash-sale all --quick --postgres     the same on a private PostgreSQL
  flash-sale chaos S5 --runs 10         one scenario, ten times";
