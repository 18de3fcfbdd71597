//! `load`: places orders over HTTP.

use super::{Ended, verdict};
use crate::load::{self, Aborts, Extent, LoadPlan, OrderMix, Profile};
use clap::{ArgGroup, Args, value_parser};
use std::{error::Error, io::Write, net::SocketAddr, path::PathBuf, time::Duration};
use tokio::time::Instant;

/// Options for the `load` command.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("profile").required(true).args(["rate", "burst", "clients"]))]
#[command(group = ArgGroup::new("extent").required(true).args(["orders", "seconds"]))]
pub struct Load {
    /// Address of a shop or a balancer
    #[arg(value_name = "HOST:PORT")]
    pub target: String,

    /// Open model: place this many orders per second, regardless of the responses
    #[arg(long, value_name = "PER SECOND", value_parser = value_parser!(u32).range(1..=100_000))]
    pub rate: Option<u32>,

    /// Open model: place this many orders per second, and five times as many during every fifth second
    #[arg(long, value_name = "PER SECOND", value_parser = value_parser!(u32).range(1..=20_000))]
    pub burst: Option<u32>,

    /// Closed model: run this many clients, each with one order in flight
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=10_000))]
    pub clients: Option<u32>,

    /// Stop after this many orders
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub orders: Option<u64>,

    /// Stop after this many seconds
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,

    /// Code of a product to order; may be repeated
    #[arg(long = "sku", value_name = "CODE", required = true)]
    pub skus: Vec<String>,

    /// Maximum number of units in an order
    #[arg(long, value_name = "N", default_value = "1", value_parser = value_parser!(u32).range(1..=1_000))]
    pub max_quantity: u32,

    /// Percentage of orders whose first request is aborted and then repeated
    #[arg(long, value_name = "PERCENT", value_parser = value_parser!(u32).range(1..=100))]
    pub abort: Option<u32>,

    /// Time that a client waits for a response, in milliseconds
    #[arg(long, value_name = "MS", default_value = "30000", value_parser = value_parser!(u64).range(1..=600_000))]
    pub timeout: u64,

    /// Prefix of all idempotency keys; use a different one for each load on the same database
    #[arg(long, value_name = "TEXT", default_value = "load")]
    pub keys: String,

    /// Seed for the orders and aborts
    #[arg(long, value_name = "SEED", default_value = "42")]
    pub seed: u64,

    /// File for the outcomes, one line of JSON per order
    #[arg(long, value_name = "FILE", default_value = "journal.jsonl")]
    pub journal: PathBuf,
}

impl Load {
    /// Places the orders and prints a summary as JSON. Exits with [`BROKEN`](super::BROKEN) if the requested rate was
    /// not achieved.
    ///
    /// # Errors
    /// Returns an error if the target does not resolve to an address or the journal cannot be written.
    ///
    /// # Cancel safety
    /// Dropping this drops all requests. The journal keeps the orders that have already ended.
    pub async fn run(self, out: &mut (impl Write + Send)) -> Ended {
        let plan = self.plan().await?;
        let (summary, _) = load::run(plan).await?;
        writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
        Ok(verdict(summary.is_valid()))
    }

    async fn plan(self) -> Result<LoadPlan, Box<dyn Error + Send + Sync>> {
        let target = self.target.strip_prefix("http://").unwrap_or(&self.target).trim_end_matches('/');
        let target: Option<SocketAddr> = tokio::net::lookup_host(target).await?.next();
        let profile = match (self.rate, self.burst, self.clients) {
            (Some(rate), ..) => Profile::Open { rate: rate.into() },
            (_, Some(rate), _) => Profile::Burst { rate: rate.into() },
            (.., clients) => Profile::Closed { clients: clients.unwrap_or(1) },
        };
        Ok(LoadPlan {
            target: target.ok_or("the target does not resolve to an address: use HOST:PORT")?,
            profile,
            extent: self
                .orders
                .map_or(Extent::Time(Duration::from_secs(self.seconds.unwrap_or(1))), Extent::Orders),
            mix: OrderMix {
                skus: self.skus,
                max_quantity: self.max_quantity,
                keys: self.keys,
                seed: self.seed,
            },
            timeout: Duration::from_millis(self.timeout),
            aborts: self.abort.map(|percent| Aborts { percent }),
            journal: Some(self.journal),
            zero: Instant::now(),
        })
    }
}
