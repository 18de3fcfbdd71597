//! Locks over several independent stores: a quorum that survives the loss of a minority.
//!
//! A [`QuorumBackend`] asks all of its nodes, and a majority decides. It follows Redlock, with what that algorithm lacks: the
//! client proposes the fencing token, so that tokens grow; a node that lost its data does not vote until every lease that it
//! may have forgotten is over; and an attempt that fails leaves nothing behind. `docs/quorum.md` has the rules and the reason
//! of each.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::{LockFactory, MemoryBackend, quorum::{Member, QuorumBackend}};
//!
//! let nodes = ["a", "b", "c"].map(|name| Member::new(name, MemoryBackend::new()).durable());
//! let locks = LockFactory::new(QuorumBackend::builder(nodes).build()?);
//! let guard = locks.named("stock:42")?.acquire().await?;
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! | file | decides |
//! | --- | --- |
//! | `round.rs` | which votes count, when a token is raised, when a round is won or lost |
//! | `tally.rs` | a question that a majority answers with yes or no |
//! | `residue.rs` | what may be left of a lease on a node, and which release proves that nothing is |
//! | `clocks.rs` | the clock of each node, and the median |
//! | `burst.rs` | when the messages of several nodes are one wake-up |
//!
//! The other files carry this out: they send, wait, and give stragglers to the background.

mod acquire;
mod backend;
mod background;
mod builder;
mod burst;
mod cleanup;
mod clocks;
mod extend;
mod gather;
mod leases;
mod member;
mod node;
mod node_views;
mod release;
mod residue;
mod round;
mod shared;
mod tally;
mod timer;
mod wakes;

pub use backend::QuorumBackend;
pub use builder::QuorumBuilder;
pub use member::Member;
pub(crate) use node::TOKEN_BOUND;
pub use node::{
    Extended, Extension, Healed, Healing, MAX_CLOCK_DISTANCE, MIN_COUNTER_RETENTION, NodeReply, Proposal,
    QuorumNode, Vote,
};

/// The decisions of a quorum, for model checkers.
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub mod decisions {
    pub use super::{
        clocks::{NodeClocks, not_after},
        residue::{Outcome, Release, Residue},
        round::{Answer, Ballot, Round, Step, Verdict, majority},
        tally::{Ruling, Tally, Word},
    };
}
