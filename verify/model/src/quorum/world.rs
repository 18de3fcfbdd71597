//! A state: nodes, clients, messages in flight, and one clock.

use super::{
    NODES,
    client::{Client, Phase},
    config::{QuorumBudget, QuorumConfig},
    message::QuorumMessage,
    model::QuorumLaw,
    node::Node,
};
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
