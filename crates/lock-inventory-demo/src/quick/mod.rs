//! The default command, which runs one flash sale without the lock and one with it, on SQLite and an
//! in-memory lock, and gives a verdict.
//!
//! The shops are the same as in [`serve`](crate::serve), but in one process. Orders call their
//! routes without a network.

mod answer;
mod crowd;
mod progress;
mod report;
mod sale;
mod stall;
mod throughput;
mod timings;

pub use sale::Sale;
pub use throughput::Throughput;

use crate::{
    catalogue::{self, CatalogueError},
    domain::{Catalogue, Demand, DemandError, DemandSize, Verdict},
    locks::{Locks, LocksUrl},
    shop::ShopError,
    store::StoreError,
    strategy::Strategy,
};
use axum::http::StatusCode;
use lock_core::{LockError, backend::ProcessId};
use progress::Progress;
use std::{io, io::Write, path::PathBuf};
use tokio::task::JoinError;

/// Options for the sale.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of buyers that order at the same time, 2 to 2,000.
    pub buyers: u32,
    /// Number of shops, 1 to 64. Each has its own lock factory, like a separate process.
    pub shops: u32,
    /// Number of orders.
    pub orders: u32,
    /// Number of orders whose payment takes longer than their lease.
    pub stalls: u32,
    /// Seed for the demand and the payment delays.
    pub seed: u64,
    /// CSV file with the products; `None` for the built-in catalogue.
    pub catalogue: Option<PathBuf>,
    /// Lock store.
    pub locks: LocksUrl,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            buyers: 200,
            shops: 4,
            orders: 20_000,
            stalls: 5,
            seed: 42,
            catalogue: None,
            locks: LocksUrl::MEMORY,
        }
    }
}

/// The options, with the catalogue loaded and the locks connected.
struct Plan {
    options: Options,
    catalogue: Catalogue,
    demand: Demand,
    locks: Locks,
    prefix: String,
}

impl Plan {
    async fn of(options: Options) -> Result<Self, QuickError> {
        let catalogue = match &options.catalogue {
            Some(path) => catalogue::read(path)?,
            None => catalogue::parse(catalogue::DEFAULT.as_bytes())?,
        };
        let size = DemandSize { orders: options.orders, stalls: options.stalls, seed: options.seed };
        let demand = Demand::draw(&catalogue, size)?;
        let locks = Locks::connect(&options.locks).await.map_err(QuickError::Locks)?;
        // A random prefix separates runs on the same Redis server from each other and from
        // applications.
        let prefix = format!("demo-{}", ProcessId::random());
        Ok(Self { options, catalogue, demand, locks, prefix })
    }
}

/// Runs the sales without and with the lock, measures the throughput, and writes the result to `out`.
///
/// # Errors
/// Returns [`QuickError`] if the options are invalid or a sale does not complete.
///
/// # Cancel safety
/// Dropping this ends the sale and removes the database.
pub async fn run(options: Options, out: &mut impl Write) -> Result<Verdict, QuickError> {
    let plan = Plan::of(options).await?;
    report::open(out, &plan)?;
    out.flush()?;
    let orders = plan.demand.orders() as u64;
    let without = sale::run(&plan, Strategy::None, Progress::on_stderr("without lock", orders)).await?;
    let with = sale::run(&plan, Strategy::Fenced, Progress::on_stderr("with lock", orders)).await?;
    let throughput = throughput::measure(&plan).await?;
    Ok(report::close(out, &plan, &without, &with, &throughput)?)
}

/// An error that prevents a verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuickError {
    /// The catalogue is unusable.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The demand is unusable.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// Connecting to the lock store failed.
    #[error("could not connect to the lock store")]
    Locks(#[source] LockError),
    /// The directory for the database could not be created.
    #[error("could not create a temporary directory for the database")]
    Directory(#[source] io::Error),
    /// A database operation failed.
    #[error("could not access the sale's database")]
    Store(#[from] StoreError),
    /// A shop could not be opened or closed.
    #[error(transparent)]
    Shop(#[from] ShopError),
    /// A shop gave an unexpected response.
    #[error("a shop responded to an order with {status}: {body}")]
    Answer {
        /// Status of the response.
        status: StatusCode,
        /// Body of the response.
        body: String,
    },
    /// An order that should have stalled got an early response.
    #[error("an order that should have stalled received a response too early")]
    DidNotStall,
    /// No other shop acquired a stalled order's lock.
    #[error("no other shop acquired a stalled order's lock within a minute")]
    NobodyCame,
    /// A task panicked.
    #[error("a task panicked during the sale: see the panic message above")]
    Task(#[from] JoinError),
    /// The result could not be written.
    #[error("could not write the result")]
    Output(#[from] io::Error),
}
