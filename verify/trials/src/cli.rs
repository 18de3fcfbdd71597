//! The command line.

use crate::client::Client;
use clap::{Parser, Subcommand, builder::TypedValueParser as _, value_parser};
use lock_testkit::Seed;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// Takes locks on a Redis, and reports each step as one line of JSON on stdout.
///
/// Orders come as lines of JSON on stdin. The end of stdin ends the process at once, and releases nothing.
#[derive(Debug, Clone, Parser)]
#[command(name = "lock-node", version)]
pub struct Cli {
    /// The lease in milliseconds, kept alive by the watchdog
    #[arg(long, value_name = "MS", default_value = "30000", value_parser = value_parser!(u64).map(Duration::from_millis))]
    pub lease: Duration,

    /// How often a lease may be passed on within the process, instead of the default; 0 switches it off
    #[arg(long, value_name = "TIMES")]
    pub hand_off: Option<u32>,

    /// How long a waiting acquire tolerates that the store fails, in milliseconds, instead of the default
    #[arg(long, value_name = "MS", value_parser = value_parser!(u64).map(Duration::from_millis))]
    pub outage_budget: Option<Duration>,

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
    /// Goes through sections that increment a key by reading and then writing it. Reports `ready`, waits for `go`; at the
    /// end reports `token` for each grant, and `done`
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
    /// Acquires, reports `held`, and obeys: `release`, `acquire`, `is_held`, `lost` (waits for the loss), `read` (a fenced
    /// table), `write`, `quit`
    Hold {
        /// The lock
        lock: String,
    },
    /// Goes through sections until it is killed, and passes the lease on among its tasks. Reports `inside` and `left` of
    /// each section
    Contend {
        /// The lock
        lock: String,
        /// How many tasks go through them
        tasks: usize,
        /// How long each eighth section takes, in milliseconds; the others are empty
        #[arg(long, value_name = "MS", default_value = "0", value_parser = value_parser!(u64).map(Duration::from_millis))]
        takes: Duration,
    },
    /// Goes through sections of several locks, one task for each. Reports `ready`; at `stop` it ends what it began, and
    /// reports `section` for each, and `done`
    Work {
        /// How long a task pauses between two sections on average, in milliseconds
        #[arg(long, value_name = "MS", default_value = "10", value_parser = value_parser!(u64).map(Duration::from_millis))]
        pause: Duration,
        /// How long a section takes, in milliseconds
        #[arg(long, value_name = "MS", default_value = "0", value_parser = value_parser!(u64).map(Duration::from_millis))]
        takes: Duration,
        /// A folder with a fenced table for each lock, which a section reads at its beginning and writes at its end
        #[arg(long, value_name = "FOLDER")]
        fence: Option<PathBuf>,
        /// Where the pauses begin
        #[arg(long, default_value = "0", value_parser = value_parser!(u64).map(Seed::new))]
        seed: Seed,
        /// The locks
        #[arg(required = true)]
        locks: Vec<String>,
    },
    /// Runs one job on a schedule, as a node of a fleet. Reports `ready`, `leading` and `resigned`; of each run
    /// `start`, then `ended` or `cancelled`; obeys `pause`, `resume`, `trigger`, `replace`, `next` and `history`; ends in good
    /// order at `stop` and at SIGTERM
    Cron {
        /// The group
        group: String,
        /// When
        schedule: String,
        /// How long a body takes, in milliseconds
        #[arg(long, value_name = "MS", default_value = "0", value_parser = value_parser!(u64).map(Duration::from_millis))]
        takes: Duration,
        /// How often a run whose node died is run again
        #[arg(long, value_name = "TIMES", default_value = "0")]
        adopt: u32,
        /// How many missed instants are started, and how many runs may be open at once; by default one
        #[arg(long, value_name = "TIMES")]
        catch_up: Option<u32>,
        /// A fenced table, which the body reads at its beginning and writes at its end
        #[arg(long, value_name = "FILE")]
        fence: Option<PathBuf>,
    },
    /// Releases the lock of any holder, and reports `forced`
    Force {
        /// The lock
        lock: String,
    },
    /// Reports `locked`
    Inspect {
        /// The lock
        lock: String,
    },
}
