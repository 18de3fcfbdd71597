//! The program: a command line in, two sales, a verdict out.

use crate::{
    catalogue::{self, CatalogueError},
    cli::Cli,
    domain::{Demand, DemandError, DemandSize, Verdict},
    place::{Place, UsageError},
    progress::Progress,
    redis::RedisError,
    report,
    sale::{self, Plan, SaleError, Strategy},
};
use std::{io, io::Write};

/// Runs the sale without and with the lock, and writes the result to `out`.
///
/// # Errors
/// [`AppError`] when the input is not usable, or a sale does not come to its end.
///
/// # Cancel safety
/// Dropping this ends the sale and all that it started, and removes its database.
pub async fn run(cli: &Cli, out: &mut impl Write) -> Result<Verdict, AppError> {
    let plan = plan(cli).await?;
    report::open(out, &plan)?;
    out.flush()?;
    let orders = plan.demand.orders() as u64;
    let without = Progress::on_stderr("without lock", orders);
    let without = sale::run(&plan, Strategy::WithoutLock, without).await?;
    let with = Progress::on_stderr("with lock", orders);
    let with = sale::run(&plan, Strategy::WithLock, with).await?;
    Ok(report::close(out, &plan, &without, &with)?)
}

async fn plan(cli: &Cli) -> Result<Plan, AppError> {
    let place = Place::of(cli)?;
    let catalogue = match &cli.catalogue {
        Some(path) => catalogue::read(path)?,
        None => catalogue::parse(catalogue::DEFAULT.as_bytes())?,
    };
    let size = DemandSize { orders: cli.orders, stalls: cli.stalls, seed: cli.seed };
    let demand = Demand::draw(&catalogue, size)?;
    let shops = place.shops();
    // Last, when all that was asked for is known to be usable.
    let venue = place.open().await?;
    Ok(Plan { catalogue, demand, shops, buyers: cli.buyers, seed: cli.seed, venue })
}

/// Why there is no verdict. The text is that of the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The options do not fit together.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The catalogue is not usable.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The demand would show nothing.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// There is no Redis.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// A sale did not come to its end.
    #[error(transparent)]
    Sale(#[from] SaleError),
    /// The result could not be written.
    #[error("could not write the result")]
    Output(#[from] io::Error),
}
