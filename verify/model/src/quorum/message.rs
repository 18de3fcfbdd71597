//! The messages in flight between clients and nodes.

use lock_core::{
    FencingToken,
    backend::NotifyWaiters,
    clock::UtcTime,
    model::quorum::Release,
    quorum::{Extended, Healed, Vote},
};

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuorumMessage {
    /// The client that sent it or receives it.
    pub client: usize,
    /// The number of the lease that it concerns.
    pub lease: u8,
    /// The node that receives it or sent it.
    pub node: usize,
    /// `true` if it need not arrive before time advances.
    pub slow: bool,
    /// Its content.
    pub sort: Sort,
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Sort {
    Propose {
        number: u32,
        token: FencingToken,
        last: FencingToken,
        not_after: UtcTime,
    },
    /// Includes the number of grants of the node, and the highest token that a client had been granted when it voted.
    Voted {
        number: u32,
        vote: Vote,
        grants: u64,
        given: u64,
    },
    Extend {
        number: u8,
        not_after: UtcTime,
    },
    /// A node that is too young to vote reports that.
    Extended {
        number: u8,
        outcome: Extended,
        young: bool,
    },
    Heal {
        last: FencingToken,
        not_after: UtcTime,
    },
    Healed(Healed),
    Release {
        release: Release,
        notify: NotifyWaiters,
    },
    Released {
        release: Release,
        executed: UtcTime,
        found: bool,
    },
}

impl QuorumMessage {
    /// Returns whether it arrives before anything else happens.
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
