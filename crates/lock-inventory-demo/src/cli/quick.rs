//! The default command, which runs two sales on SQLite and an in-memory lock.

use super::{Ended, Secret, UsageError, secret::parse_locks, verdict};
use crate::quick;
use clap::{Args, value_parser};
use std::{io::Write, path::PathBuf};

/// Options for the flash sale.
#[derive(Debug, Clone, Args)]
pub struct Quick {
    /// Number of buyers that order at the same time (2 to 2000)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "200", value_parser = value_parser!(u32).range(2..=2_000))]
    pub buyers: u32,

    /// Number of shops, each with its own lock factory (1 to 64)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "4", value_parser = value_parser!(u32).range(1..=64))]
    pub shops: u32,

    /// Number of orders (1 to 1000000)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "20000", value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub orders: u32,

    /// Number of orders whose payment stalls until another shop holds the lock (0 to 100)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "5", value_parser = value_parser!(u32).range(0..=100))]
    pub stalls: u32,

    /// Seed for the demand and the payment delays
    #[arg(long, value_name = "SEED", allow_negative_numbers = true, default_value = "42")]
    pub seed: u64,

    /// Catalogue to sell instead of the built-in one: CSV with the columns sku, title, category, price_cents and stock
    #[arg(long, value_name = "FILE")]
    pub catalogue: Option<PathBuf>,

    /// Lock store: `memory`, or the URL of a Redis server [env: DEMO_REDIS] [default: memory]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub locks: Option<Secret>,
}

impl Quick {
    /// Returns the options for the sale.
    ///
    /// # Errors
    /// Returns [`UsageError`] if an address is not valid.
    pub fn options(self) -> Result<quick::Options, UsageError> {
        let Self { buyers, shops, orders, stalls, seed, catalogue, locks } = self;
        Ok(quick::Options { buyers, shops, orders, stalls, seed, catalogue, locks: parse_locks(locks)? })
    }

    /// Runs the sales and prints the verdict.
    ///
    /// # Errors
    /// Returns the failure that ended the run.
    ///
    /// # Cancel safety
    /// Dropping this ends the sale and removes the database.
    pub async fn run(self, out: &mut (impl Write + Send)) -> Ended {
        Ok(verdict(quick::run(self.options()?, out).await?.is_proven()))
    }
}
