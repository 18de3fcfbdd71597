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
//! | `rules.rs` | requests to a node, its replies, and the rules by which it decides them |
//! | `round.rs` | which votes count, when a token is raised, and when a round ends; yes-or-no questions; wake-ups |
//! | `node_state.rs` | each node's clock, its silence, and what may remain of a lease there |
//!
//! These files only decide. The others carry out the decisions: they send requests, wait for replies, and handle late
//! replies in background tasks.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "__internal"), allow(unreachable_pub))]

mod acquire;
mod backend;
mod extend;
mod gather;
mod node;
mod node_state;
mod release;
mod round;
mod rules;
mod shared;
mod wakes;

pub use backend::{QuorumBackend, QuorumBuilder};
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
        node_state::{NodeClocks, Outcome, Release, Residue, not_after},
        round::{Answer, Ballot, Round, Ruling, Step, Tally, Verdict, Word, majority},
        rules::{extend, heal, propose},
    };
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
