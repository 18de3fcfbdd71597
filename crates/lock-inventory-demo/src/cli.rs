//! The command line: valid values, or one sentence that names the remedy.

use crate::{
    http::Admin, locks::LocksUrl, quick, serve, shop::ShopConfig, store::StoreError, strategy::Strategy,
};
use clap::{Args, Parser, Subcommand, value_parser};
use lock_core::{LockError, LockOptions};
use std::{convert::Infallible, fmt, net::SocketAddr, path::PathBuf, time::Duration};

/// A shop that deducts stock under load, without and with a distributed lock.
///
/// Without a command it runs a flash sale on embedded parts: once without the lock, which oversells, and once with it.
#[derive(Debug, Clone, Parser)]
#[command(name = "lock-inventory-demo", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The options of the flash sale.
    #[command(flatten)]
    pub quick: Quick,
}

/// A command.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Serve one shop over HTTP
    Serve(Serve),
}

/// The options of the flash sale.
#[derive(Debug, Clone, Args)]
pub struct Quick {
    /// How many buyers order at the same time (2 to 2000)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "200", value_parser = value_parser!(u32).range(2..=2_000))]
    pub buyers: u32,

    /// How many shops there are, each with its own lock factory (1 to 64)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "4", value_parser = value_parser!(u32).range(1..=64))]
    pub shops: u32,

    /// How many orders are placed (1 to 1000000)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "20000", value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub orders: u32,

    /// How many orders stall in their payment until the lock has passed on (0 to 100)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "5", value_parser = value_parser!(u32).range(0..=100))]
    pub stalls: u32,

    /// The seed of the demand and of the payments' delays
    #[arg(long, value_name = "SEED", allow_negative_numbers = true, default_value = "42")]
    pub seed: u64,

    /// A catalogue to sell instead of the built-in one: CSV with the columns sku, title, category, price_cents and stock
    #[arg(long, value_name = "FILE")]
    pub catalogue: Option<PathBuf>,

    /// Where the locks are: `memory`, or the URL of a Redis [default: the environment's DEMO_REDIS, or memory]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub locks: Option<Secret>,
}

/// The options of a shop.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// The address to listen on; port 0 chooses a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// The name of the shop
    #[arg(long, value_name = "NAME", default_value = "shop-1")]
    pub shop: String,

    /// `sqlite:///path` or `postgres://…` [default: an SQLite in a temporary directory]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub database: Option<Secret>,

    /// Where the locks are: `memory`, or the URL of a Redis [default: the environment's DEMO_REDIS, or memory]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub locks: Option<Secret>,

    /// The beginning of the names of all locks
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,

    /// The way to sell: none, mutex, setnx, lock, lock-write-fence, fenced, conditional, for-update, units or redis-lua
    #[arg(long, value_name = "NAME", default_value = "fenced")]
    pub strategy: Strategy,

    /// The products of an empty database: CSV
    #[arg(long, value_name = "FILE")]
    pub catalogue: Option<PathBuf>,

    /// The seed of the payments' delays
    #[arg(long, value_name = "SEED", default_value = "42")]
    pub seed: u64,

    /// The lease of the locks, in milliseconds
    #[arg(long, value_name = "MS", default_value = "10000", value_parser = value_parser!(u64).range(100..=600_000))]
    pub lease: u64,

    /// How long a request waits for its lock, in milliseconds
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = value_parser!(u64).range(0..=600_000))]
    pub wait: u64,

    /// Fill products with fewer pieces than this up to their initial stock, every minute
    #[arg(long, value_name = "N", default_value = "0")]
    pub restock_below: u32,

    /// Open the routes under /admin, on loopback alone
    #[arg(long)]
    pub admin: bool,

    /// Serve one shop without the dashboard
    #[arg(long)]
    pub headless: bool,

    /// End when stdin ends
    #[arg(long)]
    pub until_stdin_ends: bool,
}

impl Quick {
    /// Returns the options of the sale.
    ///
    /// # Errors
    /// [`UsageError`] for an address that is none.
    pub fn options(self) -> Result<quick::Options, UsageError> {
        let Self { buyers, shops, orders, stalls, seed, catalogue, locks } = self;
        Ok(quick::Options { buyers, shops, orders, stalls, seed, catalogue, locks: parse_locks(locks)? })
    }
}

impl Serve {
    /// Returns the settings of the shop.
    ///
    /// # Errors
    /// [`UsageError`] for an address that is none.
    pub fn config(self) -> Result<serve::Config, UsageError> {
        let lease = LockOptions::new().lease(Duration::from_millis(self.lease));
        Ok(serve::Config {
            listen: self.listen,
            database: self.database.map(|url| url.reveal().parse()).transpose()?,
            locks: parse_locks(self.locks)?,
            catalogue: self.catalogue,
            admin: if self.admin { Admin::Open } else { Admin::Closed },
            shop: ShopConfig {
                name: self.shop,
                strategy: self.strategy,
                prefix: self.prefix,
                options: lease,
                wait: Duration::from_millis(self.wait),
                seed: self.seed,
                restock_below: self.restock_below,
                observer: None,
            },
        })
    }
}

fn parse_locks(given: Option<Secret>) -> Result<LocksUrl, LockError> {
    match given.map(|secret| secret.0).or_else(|| std::env::var("DEMO_REDIS").ok()) {
        Some(text) => text.parse(),
        None => Ok(LocksUrl::MEMORY),
    }
}

/// A text that may have a password. Any text is taken here and judged later: clap repeats what it refuses.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    fn take(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.into()))
    }

    /// Returns the text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// An address is not usable.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// That of the database.
    #[error(transparent)]
    Database(#[from] StoreError),
    /// That of the locks.
    #[error("--locks was not given the address of a Redis")]
    Locks(#[from] LockError),
}
