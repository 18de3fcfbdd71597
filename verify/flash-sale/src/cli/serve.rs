//! `serve`: starts several shops with a dashboard, or serves one shop. Also the addresses that commands read from their
//! options or from the environment; they may contain passwords.

use super::Ended;
use crate::{
    addresses::{DatabaseUrl, Databases, InvalidDatabase, LocksUrl},
    dashboard,
    fleet::ShopCommand,
    server,
    strategy::Strategy,
};
use clap::{Args, value_parser};
use distlock::LockError;
use std::{convert::Infallible, env, fmt, io, io::Write, net::SocketAddr, process::ExitCode, time::Duration};

/// Options for the `serve` command.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Address to listen on; port 0 selects a free port. Without the dashboard, only a loopback address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// Name of the shop
    #[arg(long, value_name = "NAME", default_value = "shop-1")]
    pub shop: String,

    /// Database of the shops: `sqlite:///path` or `postgres://…` [env: SHOP_DATABASE] [default: SQLite in a temporary
    /// directory]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub database: Option<Secret>,

    /// Database of the payment provider, a different one [env: SHOP_PAYMENTS]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub payments: Option<Secret>,

    /// Lock store: `memory`, or the URL of a Redis server [env: SHOP_LOCKS] [default: memory, or a
    /// private redis-server for the dashboard]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub locks: Option<Secret>,

    /// Prefix for all lock names, for shops that share a Redis server with other applications
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,

    /// Strategy: none, mutex, setnx, lock, lock-write-fence, fenced, conditional, for-update, units or redis-lua
    #[arg(long, value_name = "NAME", default_value = "fenced")]
    pub strategy: Strategy,

    /// Lock lease, in milliseconds
    #[arg(long, value_name = "MS", default_value = "10000", value_parser = value_parser!(u64).range(100..=600_000))]
    pub lease: u64,

    /// Maximum wait for a lock, in milliseconds
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = value_parser!(u64).range(0..=600_000))]
    pub wait: u64,

    /// Serve one shop without the dashboard
    #[arg(long)]
    pub headless: bool,

    /// Dashboard: number of shops to start (1 to 16); without Redis, only one starts
    #[arg(long, value_name = "N", default_value = "3", value_parser = value_parser!(u8).range(1..=16), conflicts_with = "headless")]
    pub shops: u8,

    /// Dashboard: orders per second from its load generator (1 to 1000)
    #[arg(long, value_name = "N", default_value = "120", value_parser = value_parser!(u32).range(1..=1_000), conflicts_with = "headless")]
    pub rate: u32,

    /// Exit when stdin ends
    #[arg(long)]
    pub until_stdin_ends: bool,
}

impl Serve {
    /// Returns the settings for one shop.
    ///
    /// # Errors
    /// Returns [`UsageError`] if an address is not valid.
    pub fn config(self) -> Result<server::Config, UsageError> {
        Ok(server::Config {
            listen: self.listen,
            databases: parse_databases(self.database, self.payments)?,
            locks: parse_locks(self.locks)?.unwrap_or(LocksUrl::MEMORY),
            name: self.shop,
            strategy: self.strategy,
            prefix: self.prefix,
            lease: Duration::from_millis(self.lease),
            wait: Duration::from_millis(self.wait),
        })
    }

    /// Returns the settings for the dashboard.
    ///
    /// # Errors
    /// Returns [`UsageError`] if an address is not valid.
    pub fn dashboard(self) -> Result<dashboard::Config, UsageError> {
        let options = [("--lease", self.lease), ("--wait", self.wait)];
        Ok(dashboard::Config {
            listen: self.listen,
            servers: self.shops.into(),
            orders_per_second: self.rate,
            databases: parse_databases(self.database, self.payments)?,
            locks: parse_locks(self.locks)?,
            strategy: self.strategy,
            prefix: self.prefix,
            options: options.map(|(name, value)| (name, value.to_string())).into(),
        })
    }

    /// Serves until SIGTERM or Ctrl-C, or until stdin ends if `until_stdin_ends` is set.
    ///
    /// # Errors
    /// Returns the error that ended the shop or the dashboard.
    ///
    /// # Cancel safety
    /// Dropping this aborts requests.
    pub async fn run(self, out: &mut impl Write) -> Ended {
        let stop = server::asked_to_stop(self.until_stdin_ends)?;
        match self.headless {
            true => {
                // Its stdout has the addresses.
                let log = tracing_subscriber::fmt().with_writer(io::stderr);
                log.with_max_level(tracing::Level::WARN).init();
                server::run(self.config()?, stop).await?;
            }
            false => dashboard::run(self.dashboard()?, out, stop).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the lock store, if one is given as an option or in the environment.
pub(super) fn parse_locks(given: Option<Secret>) -> Result<Option<LocksUrl>, UsageError> {
    Ok(given_or(given, ShopCommand::LOCKS).map(|text| text.parse()).transpose()?)
}

/// Returns the database server of a run, if one is given as an option or in the environment.
pub(super) fn parse_database(given: Option<Secret>) -> Result<Option<DatabaseUrl>, UsageError> {
    Ok(given_or(given, ShopCommand::DATABASE).map(|text| text.parse()).transpose()?)
}

/// Returns the databases, if they are given as options or in the environment.
pub(super) fn parse_databases(
    shop: Option<Secret>,
    payments: Option<Secret>,
) -> Result<Option<Databases>, UsageError> {
    let given = (given_or(shop, ShopCommand::DATABASE), given_or(payments, ShopCommand::PAYMENTS));
    match given {
        (None, None) => Ok(None),
        (Some(shop), Some(payments)) => {
            Ok(Some(Databases { shop: shop.parse()?, payments: payments.parse()? }))
        }
        _ => Err(UsageError::OneDatabase),
    }
}

fn given_or(given: Option<Secret>, variable: &str) -> Option<String> {
    given.map(|secret| secret.0).or_else(|| env::var(variable).ok())
}

/// Text that may contain a password. It is validated later, because clap's error messages repeat invalid values.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(super) fn take(text: &str) -> Result<Self, Infallible> {
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

/// The error for an unusable address.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// A database address is invalid.
    #[error(transparent)]
    Database(#[from] InvalidDatabase),
    /// Only one of the databases is given.
    #[error(
        "--database and --payments belong together: the shops and the payment provider each have a database"
    )]
    OneDatabase,
    /// The lock store address is invalid.
    #[error("invalid lock store: set --locks or SHOP_LOCKS to `memory` or the URL of a Redis server")]
    Locks(#[from] LockError),
}
