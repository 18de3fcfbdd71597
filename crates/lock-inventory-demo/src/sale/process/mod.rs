//! Shops that are processes: this program starts itself again for each, and talks with it over its stdin and stdout.
//!
//! ```text
//! this process                     a shop
//!   shop 2 42 …            ──▶               which one it is, and where its locks are
//!                          ◀──    ready      database and Redis are open; the crowd waits for all to say so
//!   order 17 A-1 2 2580    ──▶               many at a time
//!                          ◀──    answer 17 accepted 312
//!   (end of file)          ──▶               close: give back locks, whether or not orders are under way
//!                          ◀──    closed     or, at any time, `failed` and why
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
pub(super) use protocol::Job;
