//! Locks over several independent stores, which survive the loss of a minority of them.
//!
//! A [`QuorumBackend`] sends each request to all of its nodes, and a majority decides. It follows Redlock and adds
//! three rules:
//!
//! - The client proposes the fencing token, so tokens always increase.
//! - A node that lost its data does not vote until every lease that it may have forgotten has expired.
//! - A failed attempt is undone on all nodes.
//!
//! `docs/quorum.md` explains each rule and its reason.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::{LockFactory, MemoryBackend};
//! use lock_quorum::{Member, QuorumBackend};
//!
//! let nodes = ["a", "b", "c"].map(|name| Member::new(name, MemoryBackend::new()).durable());
//! let locks = LockFactory::new(QuorumBackend::builder(nodes).build()?);
//! let guard = locks.named("stock:42")?.acquire().await?;
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! | file | contents |
//! | --- | --- |
//! | `round.rs` | which votes count, when a token is raised, and when a round ends |
//! | `tally.rs` | yes-or-no questions that a majority answers |
//! | `residue.rs` | what may be left of a lease on a node, and the release that proves that nothing is |
//! | `clocks.rs` | the nodes' clocks and their median |
//! | `silence.rs` | the nodes that have stopped answering, and when they are asked again |
//! | `burst.rs` | the merging of messages from several nodes into one wake-up |
//!
//! The other files carry out these decisions: they send requests, wait for replies, and handle late replies in
//! background tasks.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "__internal"), allow(unreachable_pub))]

mod acquire;
mod backend;
mod builder;
mod burst;
mod cleanup;
mod clocks;
mod extend;
mod gather;
mod leases;
mod node;
mod node_views;
mod release;
mod residue;
mod round;
mod rules;
mod shared;
mod silence;
mod tally;
mod timer;
mod wakes;

pub use backend::QuorumBackend;
pub use builder::QuorumBuilder;
pub use node::{Freed, Member, NodeReply, QuorumNode};
pub use rules::{
    Extended, Extension, Healed, Healing, MAX_CLOCK_DISTANCE, MIN_COUNTER_RETENTION, Proposal, Vote,
};

/// The decisions of a quorum and the rules of its nodes, for model checkers and simulations. Not covered by any promise
/// of stability.
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub mod model {
    pub use crate::{
        clocks::{NodeClocks, not_after},
        residue::{Outcome, Release, Residue},
        round::{Answer, Ballot, Round, Step, Verdict, majority},
        rules::{extend, heal, propose},
        tally::{Ruling, Tally, Word},
    };
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
