//! `serve`: several shops with a dashboard, or one shop.

use super::{
    Ended, Secret, UsageError,
    secret::{parse_database, parse_given_locks, parse_locks},
};
use crate::{dashboard, http::Admin, serve, shop::ShopConfig, strategy::Strategy};
use clap::{Args, value_parser};
use lock_core::LockOptions;
use std::{io::Write, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

/// The options of a shop.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// The address to listen on; port 0 chooses a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// The name of the shop
    #[arg(long, value_name = "NAME", default_value = "shop-1")]
    pub shop: String,

    /// `sqlite:///path` or `postgres://…` [default: the environment's DEMO_DATABASE, or an SQLite in a
    /// temporary directory]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub database: Option<Secret>,

    /// Where the locks are: `memory`, or the URL of a Redis [default: the environment's DEMO_REDIS, or memory]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub locks: Option<Secret>,

    /// A word before the names of all locks, for shops that share a Redis with others
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

    /// The dashboard: how many shops to start (1 to 16); one if there is no Redis and no redis-server
    #[arg(long, value_name = "N", default_value = "3", value_parser = value_parser!(u8).range(1..=16), conflicts_with = "headless")]
    pub shops: u8,

    /// The dashboard: the orders per second of its load (1 to 1000)
    #[arg(long, value_name = "N", default_value = "120", value_parser = value_parser!(u32).range(1..=1_000), conflicts_with = "headless")]
    pub rate: u32,

    /// End when stdin ends
    #[arg(long)]
    pub until_stdin_ends: bool,
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
            database: parse_database(self.database)?,
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

    /// Returns the settings of the dashboard.
    ///
    /// # Errors
    /// [`UsageError`] for an address that is none.
    pub fn dashboard(self) -> Result<dashboard::Config, UsageError> {
        let options = [("--seed", self.seed), ("--lease", self.lease), ("--wait", self.wait)];
        Ok(dashboard::Config {
            listen: self.listen,
            servers: self.shops.into(),
            orders_per_second: self.rate,
            database: parse_database(self.database)?,
            locks: parse_given_locks(self.locks)?,
            strategy: self.strategy,
            catalogue: self.catalogue,
            prefix: self.prefix,
            restock_below: self.restock_below,
            options: options.map(|(name, value)| (name, value.to_string())).into(),
        })
    }

    /// Serves until SIGTERM, Ctrl-C or the end of stdin.
    ///
    /// # Errors
    /// The failure that ended the shop or the dashboard.
    ///
    /// # Cancel safety
    /// Dropping this ends requests where they are.
    pub async fn run(self, out: &mut impl Write) -> Ended {
        let stop = serve::asked_to_stop(self.until_stdin_ends)?;
        match self.headless {
            true => serve::run(self.config()?, stop).await?,
            false => dashboard::run(self.dashboard()?, out, stop).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
