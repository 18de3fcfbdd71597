//! A state: nodes, clients with their rounds, holds and the possible remains of their leases, messages in flight,
//! and one clock.

use super::{NODES, QuorumBudget, QuorumConfig, QuorumLaw, node::Node};
use lock_core::{FencingToken, backend::NotifyWaiters, clock::UtcTime};
use lock_quorum::model::{Release, Residue, Round, Ruling, Tally, Word};
use lock_quorum::{Extended, Healed, Vote};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The state of the whole model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuorumWorld {
    pub(super) ticks: u8,
    pub(super) nodes: [Node; NODES],
    pub(super) clients: Vec<Client>,
    /// Without an order, since every order of arrival is tried.
    pub(super) net: Vec<QuorumMessage>,
    pub(super) faults: QuorumBudget,
    /// The ranges of tokens granted to clients.
    pub(super) given: Vec<(u64, u64)>,
    pub(super) broken: Option<QuorumLaw>,
}

impl QuorumWorld {
    pub(super) fn new(config: &QuorumConfig) -> Self {
        let mut nodes: [Node; NODES] = Default::default();
        if config.held {
            (0..NODES - 1).for_each(|node| nodes[node].holds(config, node));
        }
        let mut world = Self {
            ticks: 0,
            nodes,
            clients: config.rounds.iter().map(|rounds| Client::new(*rounds)).collect(),
            net: Vec::new(),
            faults: config.faults,
            given: Vec::new(),
            broken: None,
        };
        if config.holding {
            world.first_client_holds(config);
        }
        world
    }

    /// Returns the number of clients that believe they hold the lock.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.clients.iter().filter(|client| client.is_valid(self.ticks)).count()
    }

    /// Returns whether a client lost a round.
    #[must_use]
    pub fn has_loser(&self) -> bool {
        self.clients.iter().any(|client| client.phase == Phase::Waiting)
    }

    /// Returns the tokens granted to clients: the first and the last of each range.
    #[must_use]
    pub fn tokens(&self) -> &[(u64, u64)] {
        &self.given
    }

    pub(super) fn breaks(&mut self, config: &QuorumConfig, law: QuorumLaw) {
        if config.only.is_none_or(|only| only == law) {
            self.broken.get_or_insert(law);
        }
    }

    pub(super) fn highest_given(&self) -> u64 {
        self.given.iter().map(|(_, last)| *last).max().unwrap_or(0)
    }

    pub(super) fn send(&mut self, message: QuorumMessage) {
        // Sorted, so that the order of sending does not matter.
        let new = order(&message);
        let at = self.net.partition_point(|known| order(known) < new);
        self.net.insert(at, message);
    }
}

/// Returns a number by which messages are sorted.
fn order(message: &QuorumMessage) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.hash(&mut hasher);
    hasher.finish()
}

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

/// One step. Messages are identified by their position among those in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuorumAct {
    /// This client starts a round.
    Begin(usize),
    /// It gives up its round without a decision.
    GiveUp(usize),
    /// It renews its hold.
    Renew(usize),
    /// It releases its hold.
    Free(usize),
    /// A message arrives.
    Arrive(usize),
    /// A message is lost.
    Lose(usize),
    /// A message takes longer.
    Delay(usize),
    /// A node restarts without its data.
    Crash(usize),
    /// The lease on this node ends, regardless of the time.
    Expire(usize),
    /// Time advances.
    Tick,
}

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
