//! The parts of the shop without I/O: values, demand, and the rules for judging a sale.

mod audit;
mod catalogue;
mod demand;
mod digits;
mod key;
mod order;
mod product;
mod reservation;
mod verdict;

pub use audit::{Audit, Books, Breach, ClientOutcome, LedgerRow, RestockRow, StockRow};
pub use catalogue::{Catalogue, CatalogueRule};
pub use demand::{Demand, DemandError, DemandSize};
pub use digits::thousands;
pub use key::{IdempotencyKey, KeyError};
pub use order::{Order, Outcome, Receipt, Stale};
pub use product::{Cents, Product, Quantity, Sku, SkuError};
pub use reservation::{Reservation, ReservationState};
pub use verdict::{Broken, Evidence, Verdict};
