//! A second model: rounds of a quorum, over the real decisions of `lock-core`
//! ([`Round`](lock_core::model::quorum::Round), [`Residue`](lock_core::model::quorum::Residue),
//! [`NodeClocks`](lock_core::model::quorum::NodeClocks)) and the real rules of its nodes.
//!
//! ```text
//!   client: round, residues ─▶ proposals, releases ─▶ ┌ in flight ┐ ─▶ rules of a node (real)
//!              ▲ votes ◀──────────────────────────────┤ lost, slow │      restarts without data
//! ```
//!
//! It has two modes. With time, clocks run at the same speed, and exclusion must hold. Without time, every lease may
//! end at any moment and clocks stand still. The order of tokens must still hold as long as the nodes keep their
//! counters.
//!
//! It is kinder than the worst case in two ways: a message that is not slow arrives before time advances, and of
//! those only proposals race. Also, the clients know the clocks of the nodes from the beginning.

mod act;
mod client;
mod config;
mod message;
mod model;
mod node;
mod renewal;
mod step;
mod world;

pub use act::QuorumAct;
pub use config::{QuorumBudget, QuorumConfig};
pub use message::{QuorumMessage, Sort};
pub use model::{QuorumLaw, QuorumModel};
pub use world::QuorumWorld;

/// The number of nodes in the model.
pub const NODES: usize = 3;
