//! What is in flight between clients and nodes.

use lock_core::{
    FencingToken,
    backend::NotifyWaiters,
    clock::ServerTime,
    model::quorum::Release,
    quorum::{Extended, Healed, Vote},
};

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuorumMessage {
    /// The client that sent it, or that it is for.
    pub client: usize,
    /// The number of the lease that it is about.
    pub lease: u8,
    /// The node that it is for, or that sent it.
    pub node: usize,
    /// It need not arrive before time goes on.
    pub slow: bool,
    /// What it is.
    pub sort: Sort,
}

/// A kind of message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Sort {
    Propose {
        number: u32,
        token: FencingToken,
        last: FencingToken,
        not_after: ServerTime,
    },
    /// With the number of grants of the node, and the highest token that a client had been given when it voted.
    Voted {
        number: u32,
        vote: Vote,
        grants: u64,
        given: u64,
    },
    Extend {
        number: u8,
        not_after: ServerTime,
    },
    /// A node that is too young to vote says so.
    Extended {
        number: u8,
        outcome: Extended,
        young: bool,
    },
    Heal {
        last: FencingToken,
        not_after: ServerTime,
    },
    Healed(Healed),
    Release {
        release: Release,
        notify: NotifyWaiters,
    },
    Released {
        release: Release,
        executed: ServerTime,
        found: bool,
    },
}

impl QuorumMessage {
    /// It arrives before anything else happens.
    pub(super) fn is_prompt(&self) -> bool {
        !self.slow && !matches!(self.sort, Sort::Propose { .. })
    }

    pub(super) fn is_request(&self) -> bool {
        matches!(
            self.sort,
            Sort::Propose { .. } | Sort::Extend { .. } | Sort::Heal { .. } | Sort::Release { .. }
        )
    }
}
