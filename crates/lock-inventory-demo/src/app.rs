//! The program: a command line in, two sales, a verdict out.

use crate::{
    catalogue::{self, CatalogueError},
    cli::Cli,
    domain::{Demand, DemandError, DemandSize, Verdict},
    progress::Progress,
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
/// Dropping this ends the sale and removes its database.
pub async fn run(cli: &Cli, out: &mut impl Write) -> Result<Verdict, AppError> {
    let plan = plan(cli)?;
    report::open(out, &plan)?;
    out.flush()?;
    let orders = plan.demand.orders() as u64;
    let without = Progress::on_stderr("without lock", orders);
    let without = sale::run(&plan, Strategy::WithoutLock, without).await?;
    let with = Progress::on_stderr("with lock", orders);
    let with = sale::run(&plan, Strategy::WithLock, with).await?;
    Ok(report::close(out, &plan, &without, &with)?)
}

fn plan(cli: &Cli) -> Result<Plan, AppError> {
    let catalogue = match &cli.catalogue {
        Some(path) => catalogue::read(path)?,
        None => catalogue::parse(catalogue::DEFAULT.as_bytes())?,
    };
    let size = DemandSize { orders: cli.orders, stalls: cli.stalls, seed: cli.seed };
    let demand = Demand::draw(&catalogue, size)?;
    Ok(Plan { catalogue, demand, shops: cli.shops, buyers: cli.buyers, seed: cli.seed })
}

/// Why there is no verdict. The text is that of the cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum AppError {
    /// The catalogue is not usable.
    Catalogue(CatalogueError),
    /// The demand would show nothing.
    Demand(DemandError),
    /// A sale did not come to its end.
    Sale(SaleError),
    /// The result could not be written.
    Output(io::Error),
}

impl fmt::Display for AppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Catalogue(error) => error.fmt(f),
            Self::Demand(error) => error.fmt(f),
            Self::Sale(error) => error.fmt(f),
            Self::Output(_) => write!(f, "could not write the result"),
        }
    }
}

impl Error for AppError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Catalogue(error) => error.source(),
            Self::Demand(error) => error.source(),
            Self::Sale(error) => error.source(),
            Self::Output(error) => Some(error),
        }
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
