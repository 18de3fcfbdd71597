//! What the shop is about, without any IO: values, demand, and the rules that judge a sale.

mod audit;
mod catalogue;
mod demand;
mod digits;
mod order;
mod product;
mod verdict;

pub use audit::{Audit, Breach, LedgerRow, StockRow};
pub use catalogue::{Catalogue, CatalogueRule};
pub use demand::{Demand, DemandError, DemandSize};
pub use digits::thousands;
pub use order::{Answer, Order, OrderNumber, Outcome};
pub use product::{Cents, Product, Quantity, Sku, SkuError};
pub use verdict::{Broken, Evidence, Verdict};
