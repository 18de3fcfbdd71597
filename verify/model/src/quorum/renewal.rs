//! Renewals of holders, and heals of nodes that lost the lease.

use super::{
    NODES,
    act::QuorumAct,
    client::{Holding, Phase, Renewal},
    config::QuorumConfig,
    message::{QuorumMessage, Sort},
    step::LEASE_TICKS,
    world::QuorumWorld,
};
use lock_core::{
    backend::NotifyWaiters,
    model::quorum::{Ruling, Word},
};
use lock_testkit::planted::PlantedBug;

impl QuorumWorld {
    /// Returns whether a renewal may start: one at a time, once time has advanced or the last one failed.
    pub(super) fn may_renew(&self, holding: &Holding) -> bool {
        let is_over = |last: &Renewal| last.begun < self.ticks || last.ruling() == Some(Ruling::Unknown);
        holding.renewals_left > 0 && holding.renewal.as_ref().is_none_or(is_over)
    }

    /// Returns whether all other nodes still have their counters.
    pub(super) fn others_remember(&self, node: usize) -> bool {
        (0..NODES).all(|other| other == node || !self.nodes[other].has_forgotten)
    }

    /// Lets the first client win a round before the search starts. The last node has not received it.
    pub(super) fn first_client_holds(&mut self, config: &QuorumConfig) {
        self.clients[0].rounds_left += 1;
        self.step(config, QuorumAct::Begin(0));
        let is_for_last = |message: &QuorumMessage| message.node == NODES - 1;
        while let Some(place) = self.net.iter().position(|message| !is_for_last(message)) {
            self.step(config, QuorumAct::Arrive(place));
        }
        self.net.clear();
    }

    pub(super) fn renew(&mut self, config: &QuorumConfig, number: usize) {
        let begun = self.ticks;
        let Phase::Holding(holding) = &mut self.clients[number].phase else { return };
        holding.renewals_left -= 1;
        let lease = holding.lease;
        let last = holding.renewal.take();
        let round = last.as_ref().map_or(0, |last| last.number + 1);
        let extended = last.map_or([None; NODES], |last| last.words);
        let words = match config.has(PlantedBug::AddsRenewals) {
            true => extended.map(|word| word.filter(|word| *word == Word::Yes)),
            false => [None; NODES],
        };
        holding.renewal = Some(Renewal { number: round, begun, words });
        for node in 0..NODES {
            let sort = Sort::Extend { number: round, not_after: self.not_after(config, node, begun) };
            self.send(QuorumMessage { client: number, lease, node, slow: false, sort });
        }
    }

    /// Handles a node's answer to this renewal.
    pub(super) fn extended(
        &mut self,
        config: &QuorumConfig,
        (number, lease, node): (usize, u8, usize),
        round: u8,
        word: Word,
    ) {
        let Phase::Holding(holding) = &mut self.clients[number].phase else { return };
        let of_hold = holding.renewal.as_mut().filter(|_| holding.lease == lease);
        let Some(renewal) = of_hold.filter(|renewal| renewal.number == round) else { return };
        let was = renewal.ruling();
        let counted = renewal.words[node].unwrap_or(word);
        renewal.words[node] = Some(counted);
        let (begun, words) = (renewal.begun, renewal.words);
        match was.or(renewal.ruling()) {
            Some(Ruling::Yes) => {
                holding.until = holding.until.max(begun + LEASE_TICKS);
                // At the decision, all nodes that lost it; afterwards only the one that answered late.
                let lost = |node: &usize| words[*node] == Some(Word::No);
                let to_heal = if was.is_none() { 0..NODES } else { node..node + 1 };
                to_heal.filter(lost).for_each(|node| self.heal(config, number, node));
            }
            Some(Ruling::No) if was.is_none() => {
                self.clients[number].phase = Phase::Idle;
                self.clients.iter_mut().for_each(|client| client.lost = 0);
                self.retire(config, number, lease, NotifyWaiters::Yes);
            }
            _ => {}
        }
    }

    /// Sets the lease again on a node that lost it.
    fn heal(&mut self, config: &QuorumConfig, number: usize, node: usize) {
        let Phase::Holding(Holding { lease, last, renewal: Some(Renewal { begun, .. }), .. }) =
            self.clients[number].phase
        else {
            return;
        };
        let not_after = self.not_after(config, node, begun);
        self.clients[number].leases[usize::from(lease)].nodes[node].residue.sent(not_after);
        let sort = Sort::Heal { last, not_after };
        self.send(QuorumMessage { client: number, lease, node, slow: false, sort });
    }
}
