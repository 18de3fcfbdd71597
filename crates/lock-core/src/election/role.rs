//! The role of a process in an election.

use super::term::Term;
use crate::ids::{LeaseId, ProcessId};

/// The role of this process in an election, as returned by [`Election::role`](super::Election::role).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Role {
    /// This process does not take part: no call of [`Lead::until`](super::Lead::until) is in progress.
    Idle,
    /// This process campaigns, or pauses before its next campaign.
    Following {
        /// The leader according to the last read of the store. `None` before the first reply, between two leaders, and
        /// while the store does not reply.
        leader: Option<Leader>,
    },
    /// This process leads.
    Leading(Term),
}

/// The leader according to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The lease id of its term: `<process uuid>:<number>`.
    pub lease: String,
}

impl Role {
    /// Returns `true` if this process leads now. Checks the clock, as [`Hold::is_held`](crate::Hold::is_held) does,
    /// so the first call after a pause of this process is accurate.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        matches!(self, Self::Leading(term) if term.is_leading())
    }

    /// Returns the leader, if this process follows one.
    #[must_use]
    pub fn leader(&self) -> Option<&Leader> {
        match self {
            Self::Following { leader } => leader.as_ref(),
            Self::Idle | Self::Leading(_) => None,
        }
    }
}

impl Leader {
    /// Returns the [process](crate::LockFactory::process_id) that leads; `None` if another program holds the lock.
    #[must_use]
    pub fn process(&self) -> Option<ProcessId> {
        self.lease.parse().ok().map(|lease: LeaseId| lease.process())
    }
}
