//! A client: its round, its hold, and the possible remains of its leases.

use super::NODES;
use lock_core::{
    FencingToken,
    clock::UtcTime,
    model::quorum::{Residue, Round, Ruling, Tally, Word},
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    pub(super) rounds_left: u8,
    /// The rounds lost since time advanced or a hold was released.
    pub(super) lost: u8,
    /// Every lease that it ever drew, by number.
    pub(super) leases: Vec<Lease>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It may start a round.
    Idle,
    /// It lost a round, and waits for time to advance or for a wake-up.
    Waiting,
    Asking(Asking),
    Holding(Holding),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Holding {
    pub(super) lease: u8,
    /// Valid before this step of time.
    pub(super) until: u8,
    /// The end of its range of tokens.
    pub(super) last: FencingToken,
    pub(super) renewals_left: u8,
    /// The latest renewal.
    pub(super) renewal: Option<Renewal>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Renewal {
    pub(super) number: u8,
    pub(super) begun: u8,
    /// The answer of each node.
    pub(super) words: [Option<Word>; NODES],
}

impl Renewal {
    /// Returns the decision so far.
    pub(super) fn ruling(&self) -> Option<Ruling> {
        let mut tally = Tally::new(NODES);
        self.words.iter().flatten().for_each(|word| tally.add(*word));
        tally.ruling()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    pub(super) lease: u8,
    pub(super) begun: u8,
    pub(super) round: Round,
    /// The highest token that a client had been granted when the first vote that counts was cast.
    pub(super) given: Option<u64>,
    /// The highest number of grants among the nodes that voted.
    pub(super) grants: u64,
}

/// The possible remains of a lease, by node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    pub(super) nodes: [Trace; NODES],
    pub(super) retired: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Trace {
    pub(super) residue: Residue,
    pub(super) releasing: bool,
    /// The next release is conclusive after this time of the node.
    pub(super) proof_after: Option<UtcTime>,
}

impl Client {
    pub(super) fn new(rounds: u8) -> Self {
        Self { phase: Phase::Idle, rounds_left: rounds, lost: 0, leases: Vec::new() }
    }

    pub(super) fn is_valid(&self, ticks: u8) -> bool {
        matches!(self.phase, Phase::Holding(Holding { until, .. }) if ticks < until)
    }
}
