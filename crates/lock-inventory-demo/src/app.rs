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
use std::{error::Error, fmt, io, io::Write};

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
#[derive(Debug)]
#[non_exhaustive]
pub enum AppError {
    /// The options do not fit together.
    Usage(UsageError),
    /// The catalogue is not usable.
    Catalogue(CatalogueError),
    /// The demand would show nothing.
    Demand(DemandError),
    /// There is no Redis.
    Redis(RedisError),
    /// A sale did not come to its end.
    Sale(SaleError),
    /// The result could not be written.
    Output(io::Error),
}

impl fmt::Display for AppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(error) => error.fmt(f),
            Self::Catalogue(error) => error.fmt(f),
            Self::Demand(error) => error.fmt(f),
            Self::Redis(error) => error.fmt(f),
            Self::Sale(error) => error.fmt(f),
            Self::Output(_) => write!(f, "could not write the result"),
        }
    }
}

impl Error for AppError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Usage(error) => error.source(),
            Self::Catalogue(error) => error.source(),
            Self::Demand(error) => error.source(),
            Self::Redis(error) => error.source(),
            Self::Sale(error) => error.source(),
            Self::Output(error) => Some(error),
        }
    }
}

impl From<UsageError> for AppError {
    fn from(e: UsageError) -> Self {
        Self::Usage(e)
    }
}

impl From<RedisError> for AppError {
    fn from(e: RedisError) -> Self {
        Self::Redis(e)
    }
}

impl From<CatalogueError> for AppError {
    fn from(e: CatalogueError) -> Self {
        Self::Catalogue(e)
    }
}

impl From<DemandError> for AppError {
    fn from(e: DemandError) -> Self {
        Self::Demand(e)
    }
}

impl From<SaleError> for AppError {
    fn from(e: SaleError) -> Self {
        Self::Sale(e)
    }
}

impl From<io::Error> for AppError {
    fn from(e: io::Error) -> Self {
        Self::Output(e)
    }
}
