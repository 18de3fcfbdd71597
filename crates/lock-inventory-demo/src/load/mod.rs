//! Load over HTTP: who orders when, what the shops answer, and how long that takes.
//!
//! | model | arrivals | latency |
//! | --- | --- | --- |
//! | open, burst | at fixed times, whatever the shops do | from the *intended* start: a stall delays all that arrive meanwhile, and each counts |
//! | closed | each client sends its next order when it has the answer | from the start |
//!
//! One seed gives the same orders, keys and arrivals. Every outcome is a line of the [journal](Entry), with which
//! `audit` compares the ledger.

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
pub use orders::{OrderMix, Orders, Wish};
pub use outcome::Outcome;
pub use run::{Aborts, Extent, LoadError, LoadPlan, run};
pub use summary::{Rate, Summary};
