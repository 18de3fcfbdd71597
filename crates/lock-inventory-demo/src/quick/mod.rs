//! The default command: a flash sale without and with the lock, on embedded parts, and a verdict.
//!
//! The shops are those of [`serve`](crate::serve), in one process, and are asked through their routes without a network.

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

/// The size of the sale.
#[derive(Debug, Clone)]
pub struct Options {
    /// The buyers who order at the same time: 2 to 2,000.
    pub buyers: u32,
    /// The shops: 1 to 64. They exclude one another as processes do.
    pub shops: u32,
    /// The orders.
    pub orders: u32,
    /// The orders whose payment takes longer than their lease.
    pub stalls: u32,
    /// The seed of the demand and of the payments' delays.
    pub seed: u64,
    /// The products: a CSV file, or the built-in catalogue.
    pub catalogue: Option<PathBuf>,
    /// Where the locks are.
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

/// The options, read and connected.
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
        // Runs on one Redis do not wait for one another, nor for an application.
        let prefix = format!("demo-{}", ProcessId::random());
        Ok(Self { options, catalogue, demand, locks, prefix })
    }
}

/// Runs the sale without and with the lock, measures the throughput, and writes the result to `out`.
///
/// # Errors
/// [`QuickError`] if the options are not usable, or the sale does not come to its end.
///
/// # Cancel safety
/// Dropping this ends the sale and removes its database.
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

/// There is no verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuickError {
    /// The catalogue is not usable.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The demand would show nothing.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// The store of the locks did not let us in.
    #[error("the locks could not be reached")]
    Locks(#[source] LockError),
    /// There is no directory for the database.
    #[error("could not create a temporary directory for the database")]
    Directory(#[source] io::Error),
    /// The database failed.
    #[error("the database of the sale failed")]
    Store(#[from] StoreError),
    /// A shop could not be opened, or not closed.
    #[error(transparent)]
    Shop(#[from] ShopError),
    /// A shop gave an answer that a sale does not have.
    #[error("a shop answered an order with {status}: {body}")]
    Answer {
        /// The status.
        status: StatusCode,
        /// The body.
        body: String,
    },
    /// An order that was to stall was answered before.
    #[error("an order was answered before it could stall")]
    DidNotStall,
    /// The lock never passed to another shop.
    #[error("orders stalled past their lease, and no other shop took the lock within a minute")]
    NobodyCame,
    /// A task ended early.
    #[error("a buyer's task ended early")]
    Task(#[from] JoinError),
    /// The result could not be written.
    #[error("could not write the result")]
    Output(#[from] io::Error),
}
