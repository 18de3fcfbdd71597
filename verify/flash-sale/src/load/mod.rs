//! The load generator: orders over HTTP, their outcomes and their latencies.
//!
//! | model | arrivals | latency |
//! | --- | --- | --- |
//! | open, burst | at fixed times, regardless of the responses | from the *intended* start, so a stall adds to the latency of every order that arrives during it |
//! | closed | each client sends its next order after a response | from the actual start |
//!
//! The same seed gives the same orders, keys and arrivals. Every outcome is a line in the
//! [journal](Entry). The command `audit` compares the journal with the orders.

mod arrivals;
mod journal;
mod latency;
mod orders;
mod outcome;
mod run;
mod send;
mod summary;

pub use arrivals::{Arrivals, Profile};
pub use journal::{Entry, Journal, JournalError, read};
pub use latency::{Latency, Point};
pub use orders::{CUSTOMER, OrderMix, Orders, Wish};
pub use outcome::Outcome;
pub use run::{Aborts, Extent, LoadError, LoadPlan, run};
pub use summary::{Rate, Summary};
