//! Shops that are processes: this program starts itself again for each, and talks with it over its stdin and stdout.
//!
//! ```text
//! this process                                   a shop
//!   {"shop":2,"seed":42,…}               ──▶               which one it is, and where its locks are
//!                                        ◀──    "ready"    database and Redis are open; the crowd waits for all of them
//!   {"number":17,"sku":"A-1",…}          ──▶               an order, many at a time
//!                                        ◀──    {"answer":{"order":17,…}}
//!   (end of file)                        ──▶               close: release all locks, also while orders are under way
//!                                        ◀──    "closed"   or, at any time, {"failed":"…"} with the reason
//! ```
//!
//! The end of its stdin is what ends a shop, so none outlives this process, however this one ends.

mod child;
mod fleet;
mod link;
mod protocol;

pub use child::serve;
pub use link::ProcessEnd;

pub(super) use fleet::Processes;
pub(super) use link::ShopProcess;
pub(super) use protocol::{Job, LocksOnRedis};
