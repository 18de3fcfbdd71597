//! The command line.

use crate::client::Client;
use clap::{Parser, Subcommand};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// Takes locks on a Redis, and reports each step as one line on stdout.
///
/// Orders come as lines on stdin. The end of stdin ends the process at once, and releases nothing.
#[derive(Debug, Clone, Parser)]
#[command(name = "lock-node", version)]
pub struct Cli {
    /// The lease in milliseconds, kept alive by the watchdog
    #[arg(long, value_name = "MS", default_value = "30000", value_parser = millis)]
    pub lease: Duration,

    /// The client library
    #[arg(long, value_enum, default_value = "fred")]
    pub client: Client,

    /// Where a `lock-referee` listens that is told of each hold
    #[arg(long, value_name = "ADDRESS")]
    pub referee: Option<SocketAddr>,

    /// The server, as `redis://127.0.0.1:6379`
    pub url: String,

    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What the process does.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Goes through sections that increment a key by reading and then writing it. Says `ready`, waits for `go`; at the
    /// end `token <token> <at>` for each grant, and `done sections=<n>`
    Count {
        /// The lock that guards the sections
        lock: String,
        /// How many tasks go through them
        tasks: usize,
        /// How many sections there are in all
        sections: usize,
        /// The key
        counter: String,
    },
    /// Acquires, says `held token=<token> at=<at>`, and obeys: `release`, `acquire`, `is_held`, `read <file>`
    /// (of a fenced table), `write`, `quit`
    Hold {
        /// The lock
        lock: String,
    },
    /// Runs one job on a schedule, as a node of a fleet. Says `ready`, `leading` and `resigned`; of each run `start run=<id>
    /// at=<server's µs> token=<token> attempt=<n>`, then `ended run=<id>` or `cancelled run=<id>`; obeys `pause`, `resume`,
    /// `trigger`, `replace <schedule>`, `next` and `history`; ends in good order at `stop` and at SIGTERM
    Cron {
        /// The group
        group: String,
        /// When
        schedule: String,
        /// How long a body takes, in milliseconds
        #[arg(long, value_name = "MS", default_value = "0", value_parser = millis)]
        takes: Duration,
        /// How often a run whose node died is run again
        #[arg(long, value_name = "TIMES", default_value = "0")]
        adopt: u32,
        /// A fenced table, which the body reads at its beginning and writes at its end
        #[arg(long, value_name = "FILE")]
        fence: Option<PathBuf>,
    },
    /// Frees the lock whoever holds it; says `forced true` or `forced false`
    Force {
        /// The lock
        lock: String,
    },
    /// Says `locked true remaining=<ms>` or `locked false`
    Inspect {
        /// The lock
        lock: String,
    },
}

fn millis(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_millis).map_err(|_| "give a whole number of milliseconds".to_owned())
}
