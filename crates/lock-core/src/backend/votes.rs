//! The replies of a quorum's nodes, for errors, events and metrics.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

/// The replies of a quorum's nodes, in the order in which the quorum was given its nodes. Empty for other stores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Votes(Option<Arc<[NodeVote]>>);

/// The reply of a quorum node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct NodeVote {
    /// The name of the node.
    pub node: Arc<str>,
    /// The reply.
    pub kind: VoteKind,
}

/// The kind of a node's reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VoteKind {
    /// It granted the lock.
    Granted,
    /// Another lease holds the lock there.
    Busy,
    /// It has issued a higher token.
    Stale,
    /// Its clock is too far from that of the quorum.
    ClockOff,
    /// It may have lost its data, and abstains for some time.
    Quarantined {
        /// The time until it votes.
        left: Duration,
    },
    /// The request reached it too late.
    Late,
    /// It extended the lease.
    Extended,
    /// The lease does not exist there.
    Gone,
    /// It released the lease, or lowered its depth.
    Released,
    /// The lock is free there.
    Free,
    /// The lock is held there.
    Held {
        /// The lease, as it is stored.
        lease: String,
    },
    /// It started or ended the subscription.
    Acknowledged,
    /// It could not be reached, or refused the request.
    Failed {
        /// The error.
        error: String,
    },
    /// It had not answered when the decision was made.
    NoAnswer,
}

impl NodeVote {
    /// Creates a reply of the named node.
    #[must_use]
    pub fn new(node: impl Into<Arc<str>>, kind: VoteKind) -> Self {
        Self { node: node.into(), kind }
    }
}

impl VoteKind {
    /// Returns a short name for metrics.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Busy => "busy",
            Self::Stale => "stale",
            Self::ClockOff => "clock",
            Self::Quarantined { .. } => "quarantine",
            Self::Late => "late",
            Self::Extended => "extended",
            Self::Gone => "gone",
            Self::Released => "released",
            Self::Free => "free",
            Self::Held { .. } => "held",
            Self::Acknowledged => "acknowledged",
            Self::Failed { .. } => "failed",
            Self::NoAnswer => "no_answer",
        }
    }
}

impl fmt::Display for VoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quarantined { left } => write!(f, "quarantined (votes again in {left:.1?})"),
            Self::Held { lease } => write!(f, "held by {lease}"),
            Self::Failed { error } => write!(f, "failed ({error})"),
            Self::NoAnswer => f.write_str("no answer"),
            other => f.write_str(other.as_str()),
        }
    }
}

impl Votes {
    /// Creates an empty value, for a store that is not a quorum.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }
}

impl FromIterator<NodeVote> for Votes {
    fn from_iter<I: IntoIterator<Item = NodeVote>>(votes: I) -> Self {
        Self(Some(votes.into_iter().collect()))
    }
}

impl Deref for Votes {
    type Target = [NodeVote];

    fn deref(&self) -> &[NodeVote] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, vote) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}", vote.node, vote.kind)?;
        }
        Ok(())
    }
}
