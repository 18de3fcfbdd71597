//! The command line: the commands, their exit codes and signals. Errors for invalid input contain a remedy.

mod scenarios;
mod serve;

pub use scenarios::{All, Chaos, Place};
pub use serve::{Secret, Serve, UsageError};

use crate::{
    audit,
    balancer::{self, Servers},
    load::{self, Aborts, Extent, LoadPlan, OrderMix, Profile},
    report,
};
use clap::{ArgGroup, Args, Parser, Subcommand, value_parser};
use serde_json::json;
use serve::parse_databases;
use std::{error::Error, io::Write, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};
use tokio::time::Instant;

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

/// Options for the `balancer` command.
#[derive(Debug, Clone, Args)]
pub struct Balancer {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// Address of a shop; may be repeated
    #[arg(long = "server", value_name = "ADDRESS", required = true)]
    pub servers: Vec<SocketAddr>,
}

impl Balancer {
    /// Forwards requests until this future is dropped. Prints one line of JSON with the balancer's address once it
    /// listens.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    ///
    /// # Cancel safety
    /// Dropping this closes the port.
    pub async fn run(self, out: &mut (impl Write + Send)) -> Ended {
        let servers = Servers::of(self.servers.into_iter().map(|address| (address.to_string(), address)));
        let balancer = balancer::Balancer::start(self.listen, servers).await?;
        writeln!(out, "{}", json!({ "listening": balancer.address(), "pid": std::process::id() }))?;
        out.flush()?;
        std::future::pending().await
    }
}

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
    /// Places the orders and prints a summary as JSON. Exits with [`BROKEN`] if the requested rate was
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

/// Options for the `audit` command.
#[derive(Debug, Clone, Args)]
pub struct Audit {
    /// Database of the shops: sqlite:///path or postgres://… [env: SHOP_DATABASE]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub database: Option<Secret>,

    /// Database of the payment provider [env: SHOP_PAYMENTS]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub payments: Option<Secret>,

    /// Journal written by `load`, to compare with the orders; repeat the option to pass the journals of all clients
    #[arg(long, value_name = "FILE")]
    pub journal: Vec<PathBuf>,
}

impl Audit {
    /// Audits the databases and prints every finding.
    ///
    /// # Errors
    /// Returns an error if a database or a journal cannot be read.
    ///
    /// # Cancel safety
    /// Dropping this closes the connections. The audit never changes a row.
    pub async fn run(self, out: &mut (impl Write + Send)) -> Ended {
        let mut entries = Vec::new();
        for journal in &self.journal {
            entries.extend(load::read(journal)?);
        }
        let clients = (!self.journal.is_empty()).then_some(&*entries);
        let databases = parse_databases(self.database, self.payments)?;
        let databases = databases.ok_or("the databases are missing: set --database and --payments")?;
        let audit = audit::of_databases(&databases, clients).await?;
        writeln!(out, "{}", audit.rows)?;
        for lie in &audit.lies {
            writeln!(out, "- {lie}")?;
        }
        match clients {
            Some(entries) => writeln!(out, "Compared with {} client outcomes.", entries.len())?,
            None => writeln!(out, "Not compared with client outcomes: pass the journals with --journal.")?,
        }
        Ok(verdict(audit.findings().next().is_none()))
    }
}

/// Options for the `report` command.
#[derive(Debug, Clone, Args)]
pub struct Report {
    /// Results file written by `all`
    #[arg(value_name = "FILE", default_value = "results.json")]
    pub results: PathBuf,

    /// Directory for report.html
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
}

impl Report {
    /// Generates the page.
    ///
    /// # Errors
    /// Returns an error if the results cannot be read or the page cannot be written.
    pub fn run(self, out: &mut impl Write) -> Ended {
        report::write_page(&report::read(&self.results)?, &self.out)?;
        writeln!(out, "The report is in {}.", self.out.join(report::PAGE).display())?;
        Ok(ExitCode::SUCCESS)
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
