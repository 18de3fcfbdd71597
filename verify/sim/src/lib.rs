//! Simulation of whole processes with the real driver, over a simulated network and store, in virtual time, from one
//! seed.
//!
//! The processes lock one store, or a quorum of three: a [`Topology`]. [`run`] makes one run of a
//! [`Seed`](lock_testkit::Seed), [`campaign`] many. A seed repeats its run exactly, which the hash over all events
//! proves. The oracle is trusted because it finds [planted bugs](lock_testkit::planted).
//!
//! ```text
//!   clients ─▶ LockFactory (real) ─▶ SimBackend ─▶ network ─▶ store (the store rules of lock-core)
//!      │            │                └▶ SimPipeline ▲ calls of several operations, in half of the runs
//!      │            │ its own clock                  │ lost, late, twice, cut     │ its own clock
//!      └────────────┴── observer ─▶ ORACLE ◀─────────┴────────────────────────────┘
//! ```
//!
//! Over a quorum, the factory has the real `QuorumBackend`. Each `SimBackend` below it is a node with its own link,
//! store and clock. For the oracle, a lease is stored if a majority has it.

mod backend;
mod client;
mod clock;
mod judge;
mod message;
mod net;
mod oracle;
mod pipeline;
mod plan;
mod process;
mod run;
mod state;
mod store;
mod trace;
mod trouble;
mod world;

pub use plan::Topology;
pub use run::{Failure, Report, Tally, campaign, run};
