//! The command line: becomes valid values, or one sentence that says what to do. One file per command.

mod all;
mod audit;
mod balancer;
mod chaos;
mod load;
mod place;
mod quick;
mod report;
mod say;
mod secret;
mod serve;
mod stop;

pub use all::All;
pub use audit::Audit;
pub use balancer::Balancer;
pub use chaos::Chaos;
pub use load::Load;
pub use place::Place;
pub use quick::Quick;
pub use report::Report;
pub use secret::{Secret, UsageError};
pub use serve::Serve;

use clap::{Parser, Subcommand};
use std::{error::Error, io::Write, process::ExitCode};

/// A flash sale over several shops, without and with a distributed lock.
///
/// Without a command: two sales on embedded parts (SQLite, a lock in memory), one without and one with the lock, and a
/// verdict. Nothing is needed beside this program.
#[derive(Debug, Clone, Parser)]
#[command(name = "lock-inventory-demo", version, after_help = AFTER, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The options of the quick version.
    #[command(flatten)]
    pub quick: Quick,
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Open several shops with a dashboard, or be one shop (`--headless`): HTTP API, jobs, health and metrics
    Serve(Serve),
    /// Spread requests over shops, round robin
    Balancer(Balancer),
    /// Place orders at a fixed rate or by waiting clients, and keep a journal of their outcomes
    Load(Load),
    /// Run scenarios with faults, again and again, and audit each
    Chaos(Chaos),
    /// Compare a database with its own counters and with the journals of clients
    Audit(Audit),
    /// Make report.html from a results.json
    Report(Report),
    /// Run every scenario in real processes, and write report.html and results.json
    All(All),
}

/// The result of a command.
pub type Ended = Result<ExitCode, Box<dyn Error + Send + Sync>>;

/// An expectation does not hold.
pub const BROKEN: u8 = 1;
/// The input is not usable, or the command could not finish.
pub const FAILED: u8 = 2;

impl Cli {
    /// Runs the command until it ends or a signal ends it. Results go to `out`, progress to stderr.
    ///
    /// # Errors
    /// The failure that ended the command; the exit code is then [`FAILED`].
    ///
    /// # Cancel safety
    /// Dropping this ends all that the command started.
    pub async fn run(self, out: &mut (impl Write + Send)) -> Ended {
        match self.command {
            // These have something to do when a signal comes.
            Some(Command::Serve(serve)) => serve.run(out).await,
            Some(Command::Chaos(chaos)) => chaos.run(out).await,
            Some(Command::All(all)) => all.run(out).await,
            // The others are dropped.
            None => until_stopped(self.quick.run(out)).await,
            Some(Command::Balancer(balancer)) => until_stopped(balancer.run(out)).await,
            Some(Command::Load(load)) => until_stopped(load.run(out)).await,
            Some(Command::Audit(audit)) => until_stopped(audit.run(out)).await,
            Some(Command::Report(report)) => report.run(out),
        }
    }
}

async fn until_stopped(command: impl Future<Output = Ended>) -> Ended {
    tokio::select! {
        ended = command => ended,
        code = stop::asked_to_stop() => Ok(code),
    }
}

/// The exit code of expectations.
fn verdict(holds: bool) -> ExitCode {
    if holds { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) }
}

const AFTER: &str = "\
Exit code: 0 when every expectation holds, 1 when one is broken, 2 when the input is not usable or the run could not \
finish.

Examples:
  lock-inventory-demo                            the quick version
  lock-inventory-demo --orders 60000 --shops 8   a larger sale
  lock-inventory-demo all --quick                every scenario in real processes, with a report (needs redis-server)
  lock-inventory-demo all --quick --postgres     the same on a private PostgreSQL
  lock-inventory-demo chaos S5 --runs 10         one scenario, ten times";
