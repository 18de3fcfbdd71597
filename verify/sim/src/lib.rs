//! Whole processes, with the real driver, over a simulated network and store, in virtual time, from one seed.
//!
//! The processes lock one store, or a quorum of three: a [`Topology`]. [`run`] makes one run of a
//! [`Seed`](lock_testkit::Seed), [`campaign`] many. A run is repeated exactly by its seed: its events are folded into a hash.
//! The oracle is known to see, since it finds [planted bugs](lock_testkit::planted).
//!
//! ```text
//!   clients ─▶ LockFactory (real) ─▶ SimBackend ─▶ network ─▶ store (the store rules of lock-core)
//!      │            │                └▶ SimPipeline ▲ calls of several operations, in half of the runs
//!      │            │ clock of its own               │ lost, late, twice, cut     │ clock of its own
//!      └────────────┴── observer ─▶ ORACLE ◀─────────┴────────────────────────────┘
//! ```
//!
//! Over a quorum, the factory has the real `QuorumBackend`, and each `SimBackend` below it is a node with a way, a store and a
//! clock of its own. The oracle takes for stored what a majority has.

mod access;
mod backend;
mod ballot;
mod calm;
mod campaign;
mod client;
mod clock;
mod data_loss;
mod execute;
mod gate;
mod holding;
mod judge;
mod link;
mod look;
mod message;
mod net;
mod node;
mod observer;
mod oracle;
mod orphans;
mod pipeline;
mod plan;
mod process;
mod quorum;
mod resource;
mod run;
mod state;
mod store;
mod stores;
mod trace;
mod trouble;
mod wake;
mod world;

pub use campaign::{Tally, campaign};
pub use plan::Topology;
pub use run::{Failure, Report, run};
