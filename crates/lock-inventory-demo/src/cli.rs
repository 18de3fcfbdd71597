//! The command line: becomes valid values, or one sentence that says what to do.

use clap::{Parser, value_parser};
use std::{convert::Infallible, fmt, path::PathBuf};

/// A flash sale over several shop instances, once without and once with the distributed lock.
///
/// Nothing is needed beside this program: stock and orders are in an SQLite database in a temporary directory,
/// the lock is in memory, and each shop is its own process to the others. With --with-redis or --redis the lock is
/// on Redis, and each shop is an operating-system process.
///
/// Without the lock the shops sell pieces that do not exist. With it they sell none too many; and some orders
/// stall in their payment until their lease is over, so that you see the store refuse a write that comes too
/// late. An audit of the order ledger decides, not the counter.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(name = "lock-inventory-demo", version, after_help = AFTER)]
pub struct Cli {
    /// How many buyers order at the same time (2 to 5000)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "200", value_parser = value_parser!(u32).range(2..=5_000))]
    pub buyers: u32,

    /// How many shop instances there are, each with its own lock factory and database connection (1 to 64)
    /// [default: 4]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = value_parser!(u32).range(1..=64))]
    pub shops: Option<u32>,

    /// Keep the lock on a private redis-server, started for this run and gone after it
    #[arg(long, conflicts_with = "redis")]
    pub with_redis: bool,

    /// Keep the lock on the Redis at this address
    // Any text is taken here and judged later: what clap refuses it repeats, and this may have a password.
    #[arg(long, value_name = "URL", help = REDIS, value_parser = Unjudged::take)]
    pub redis: Option<Unjudged>,

    /// With Redis: how many shops there are, each an operating-system process (1 to 16) [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = value_parser!(u32).range(1..=16))]
    pub processes: Option<u32>,

    /// How many orders are placed (1 to 1000000)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "20000", value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub orders: u32,

    /// How many orders stall in their payment until the lock has passed on (0 to 100)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "5", value_parser = value_parser!(u32).range(0..=100))]
    pub stalls: u32,

    /// What the demand and the payment delays are derived from; the same seed repeats them
    #[arg(long, value_name = "SEED", allow_negative_numbers = true, default_value = "42")]
    pub seed: u64,

    /// A catalogue to sell instead of the built-in one: CSV with the columns sku, title, category, price_cents
    /// and stock
    #[arg(long, value_name = "FILE")]
    pub catalogue: Option<PathBuf>,

    /// Be a shop of the run that starts this, over its database
    #[arg(long, value_name = "DATABASE", hide = true, exclusive = true)]
    pub shop_process: Option<PathBuf>,
}

/// An address as it was typed. It may have a password, and does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Unjudged(String);

impl Unjudged {
    fn take(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unjudged(…)")
    }
}

const REDIS: &str = "\
Keep the lock on the Redis at this address: redis://[user:password@]host[:port][/database], or \
redis+unix:///path/of/socket. The names of the locks begin with an id of this run";

const AFTER: &str = "\
Exit code: 0 when the sale without the lock oversold and the one with it did not, 1 when an expectation is broken, \
2 when the input is not usable or the run could not finish.

Examples:
  lock-inventory-demo                            the quick version
  lock-inventory-demo --orders 60000 --shops 8   a larger sale
  lock-inventory-demo --with-redis               three processes, the lock on Redis
  lock-inventory-demo --catalogue mine.csv       your own products";
