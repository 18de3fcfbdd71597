//! The steps that may happen next, and the effect of each: rounds, holds with their renewals, heals of nodes that lost
//! the lease, and releases.

use super::{
    LEASE, NODES, QuorumAct, QuorumConfig, QuorumLaw, QuorumMessage, QuorumWorld, Sort, TICK,
    node::Executed,
    world::{Asking, Holding, Lease, Phase, Renewal, Trace},
};
use lock_core::{backend::NotifyWaiters, clock::UtcTime};
use lock_quorum::model::{Answer, Outcome, Round, Ruling, Step, Verdict, Word, not_after};
use lock_quorum::{Extended, Healed, Vote};
use lock_testkit::planted::PlantedBug;

/// The length of a lease in steps of time.
const LEASE_TICKS: u8 = (LEASE.as_secs() / TICK.as_secs()) as u8;
/// A client that loses more rounds while nothing else happens is part of a circle of clients that wake one another.
const MAX_LOST: u8 = 1;

impl QuorumWorld {
    pub(super) fn acts(&self, config: &QuorumConfig, acts: &mut Vec<QuorumAct>) {
        if self.broken.is_some() {
            return;
        }
        // Answers and releases arrive immediately unless a fault delays or loses them. Only proposals race.
        if let Some(place) = self.net.iter().position(QuorumMessage::is_prompt) {
            acts.push(QuorumAct::Arrive(place));
            return self.faults_of(place, acts);
        }
        for (number, client) in self.clients.iter().enumerate() {
            match &client.phase {
                Phase::Idle if client.rounds_left > 0 => acts.push(QuorumAct::Begin(number)),
                Phase::Asking(_) if self.faults.give_up > 0 => acts.push(QuorumAct::GiveUp(number)),
                Phase::Holding(holding) => {
                    acts.push(QuorumAct::Free(number));
                    if self.may_renew(holding) {
                        acts.push(QuorumAct::Renew(number));
                    }
                }
                _ => {}
            }
        }
        for place in 0..self.net.len() {
            acts.push(QuorumAct::Arrive(place));
            self.faults_of(place, acts);
        }
        match config.ticks {
            Some(end) => {
                if self.ticks < end && self.net.iter().all(|message| message.slow) {
                    acts.push(QuorumAct::Tick);
                }
            }
            None => {
                let is_held = |node: &usize| {
                    self.nodes[*node].slot.clone().inspect(config.time_of(*node, self.ticks)).is_some()
                };
                acts.extend((0..NODES).filter(is_held).map(QuorumAct::Expire));
            }
        }
        if self.faults.crash > 0 {
            let may_crash = |node: &usize| !config.floor || self.others_remember(*node);
            acts.extend((0..NODES).filter(may_crash).map(QuorumAct::Crash));
        }
    }

    fn faults_of(&self, place: usize, acts: &mut Vec<QuorumAct>) {
        if self.faults.lose > 0 {
            acts.push(QuorumAct::Lose(place));
        }
        if self.faults.slow > 0 && !self.net[place].slow {
            acts.push(QuorumAct::Delay(place));
        }
    }

    pub(super) fn step(&mut self, config: &QuorumConfig, act: QuorumAct) {
        match act {
            QuorumAct::Begin(client) => self.begin(config, client),
            QuorumAct::GiveUp(client) => {
                self.faults.give_up -= 1;
                if let Phase::Asking(Asking { lease, .. }) = self.clients[client].phase {
                    self.clients[client].phase = Phase::Waiting;
                    self.clients.iter_mut().for_each(|client| client.lost = 0);
                    self.retire(config, client, lease, NotifyWaiters::Yes);
                }
            }
            QuorumAct::Renew(client) => self.renew(config, client),
            QuorumAct::Free(client) => {
                if let Phase::Holding(Holding { lease, .. }) = self.clients[client].phase {
                    self.clients[client].phase = Phase::Idle;
                    self.clients.iter_mut().for_each(|client| client.lost = 0);
                    self.retire(config, client, lease, NotifyWaiters::Yes);
                }
            }
            QuorumAct::Arrive(place) => self.arrive(config, place),
            QuorumAct::Lose(place) => {
                self.faults.lose -= 1;
                self.net.remove(place);
            }
            QuorumAct::Delay(place) => {
                self.faults.slow -= 1;
                let message = self.net.remove(place);
                self.send(QuorumMessage { slow: true, ..message });
            }
            QuorumAct::Crash(node) => {
                self.faults.crash -= 1;
                self.nodes[node].crash(self.ticks);
            }
            QuorumAct::Expire(node) => {
                let now = config.time_of(node, self.ticks);
                if let Some((holder, ..)) = self.nodes[node].slot.inspect(now) {
                    self.nodes[node].slot.release(now, holder, 0);
                }
            }
            QuorumAct::Tick => self.tick(config),
        }
        // Without remaining faults, there is no choice.
        while self.faults.lose + self.faults.slow == 0
            && let Some(place) = self.net.iter().position(QuorumMessage::is_prompt)
        {
            self.arrive(config, place);
        }
        if config.ticks.is_some() && self.holders() > 1 {
            self.breaks(config, QuorumLaw::Exclusion);
        }
    }

    fn arrive(&mut self, config: &QuorumConfig, place: usize) {
        let message = self.net.remove(place);
        match message.is_request() {
            true => self.execute(config, &message),
            false => self.hear(config, message),
        }
    }

    fn tick(&mut self, config: &QuorumConfig) {
        self.ticks += 1;
        for number in 0..self.clients.len() {
            let client = &mut self.clients[number];
            client.lost = 0;
            match client.phase {
                Phase::Waiting => client.phase = Phase::Idle,
                Phase::Holding(Holding { lease, until, .. }) if self.ticks >= until => {
                    client.phase = Phase::Idle;
                    self.retire(config, number, lease, NotifyWaiters::Yes);
                }
                Phase::Asking(Asking { lease, begun, .. }) if self.ticks > begun + 1 => {
                    client.phase = Phase::Waiting;
                    self.retire(config, number, lease, NotifyWaiters::Yes);
                }
                _ => {}
            }
            for lease in 0..self.clients[number].leases.len() {
                self.release(config, number, lease as u8, NotifyWaiters::No);
            }
        }
    }

    fn begin(&mut self, config: &QuorumConfig, number: usize) {
        let clock = self.clock(config);
        let client = &mut self.clients[number];
        client.rounds_left -= 1;
        let reuses = config.has(PlantedBug::ReusesLease) && !client.leases.is_empty();
        if reuses {
            client.leases[0].retired = false;
        } else {
            client.leases.push(Lease::default());
        }
        let lease = (client.leases.len() - 1) as u8;
        let round = Round::begin(NODES, 0, config.floor_of(number), clock);
        client.phase = Phase::Asking(Asking { lease, begun: self.ticks, round, given: None, grants: 0 });
        (0..NODES).for_each(|node| self.propose(config, number, node));
    }

    /// Returns the corrected clock of the clients.
    fn clock(&self, config: &QuorumConfig) -> u64 {
        let (clocks, now) = config.clocks(self.ticks);
        clocks.median(now).map_or(0, UtcTime::as_micros)
    }

    fn propose(&mut self, config: &QuorumConfig, number: usize, node: usize) {
        let Phase::Asking(Asking { lease, begun, round, .. }) = &self.clients[number].phase else { return };
        let (lease, ballot, begun) = (*lease, round.proposal(), *begun);
        let until = self.not_after(config, node, begun);
        self.clients[number].leases[usize::from(lease)].nodes[node].residue.sent(until);
        let sort =
            Sort::Propose { number: ballot.number, token: ballot.token, last: ballot.last, not_after: until };
        self.send(QuorumMessage { client: number, lease, node, slow: false, sort });
    }

    /// Returns the time of this node after which it executes no request of an operation that started at this step of
    /// time.
    fn not_after(&self, config: &QuorumConfig, node: usize, begun: u8) -> UtcTime {
        if config.ticks.is_none() {
            return UtcTime::from_micros(u64::MAX);
        }
        let (clocks, now) = config.clocks(self.ticks);
        let of_node = match config.has(PlantedBug::OneClockForNodes) {
            true => clocks.median(now),
            false => clocks.of(node, now),
        };
        not_after(of_node.unwrap_or_default(), TICK * u32::from(begun + 1 - self.ticks.min(begun + 1)))
    }

    fn execute(&mut self, config: &QuorumConfig, request: &QuorumMessage) {
        let given = self.highest_given();
        let node = &mut self.nodes[request.node];
        let Executed { answer, granted, notifies } = node.execute(config, self.ticks, given, request);
        let lease = &self.clients[request.client].leases[usize::from(request.lease)];
        if granted && lease.retired && lease.nodes[request.node].residue.is_clean() {
            // No client releases it any more.
            self.breaks(config, QuorumLaw::NoOrphan);
        }
        if notifies {
            let waiting = self.clients.iter_mut().filter(|client| client.phase == Phase::Waiting);
            waiting.for_each(|client| client.phase = Phase::Idle);
        }
        self.send(answer);
    }

    fn hear(&mut self, config: &QuorumConfig, message: QuorumMessage) {
        let QuorumMessage { client: number, lease, node, sort, .. } = message;
        let trace = &mut self.clients[number].leases[usize::from(lease)].nodes[node];
        match sort {
            Sort::Voted { number: proposal, vote, grants, given } => {
                let granted = vote == Vote::Granted;
                trace.residue.answered(if granted { Outcome::Set } else { Outcome::NotSet });
                self.vote(config, (number, lease, node), (proposal, vote, grants, given));
                self.release(config, number, lease, NotifyWaiters::No);
            }
            Sort::Released { release, executed, found } => {
                trace.releasing = false;
                let executed = match config.has(PlantedBug::OneClockForNodes) {
                    true => {
                        let (clocks, now) = config.clocks(self.ticks);
                        clocks.median(now).unwrap_or_default()
                    }
                    false => executed,
                };
                // A node that finds the lease does not report its time, so that the next release does not wait.
                let executed = (!found).then_some(executed);
                let proof_after = trace.residue.released(release, executed, found);
                trace.proof_after = proof_after.filter(|_| executed.is_some());
                self.release(config, number, lease, NotifyWaiters::No);
            }
            Sort::Extended { number: renewal, outcome, young } => {
                let word = match outcome {
                    Extended::Extended if !young => Word::Yes,
                    Extended::Gone => Word::No,
                    Extended::Extended | Extended::Late => Word::Out,
                };
                self.extended(config, (number, lease, node), renewal, word);
            }
            Sort::Healed(healed) => {
                trace.residue.answered(if healed == Healed::Set { Outcome::Set } else { Outcome::NotSet });
                self.release(config, number, lease, NotifyWaiters::No);
            }
            Sort::Propose { .. } | Sort::Extend { .. } | Sort::Heal { .. } | Sort::Release { .. } => {}
        }
    }

    fn vote(
        &mut self,
        config: &QuorumConfig,
        (number, lease, node): (usize, u8, usize),
        (proposal, vote, grants, given): (u32, Vote, u64, u64),
    ) {
        let clock = self.clock(config);
        let Phase::Asking(asking) = &mut self.clients[number].phase else { return };
        if asking.lease != lease {
            return;
        }
        let counts = proposal == asking.round.proposal().number || config.has(PlantedBug::AddsVotes);
        if counts && vote == Vote::Granted {
            asking.given = Some(asking.given.map_or(given, |before| before.min(given)));
            asking.grants = asking.grants.max(grants);
        }
        let current = asking.round.proposal().number;
        let proposal = if config.has(PlantedBug::AddsVotes) { current } else { proposal };
        match asking.round.answered(node, proposal, Answer::Voted(vote), clock) {
            Step::Wait | Step::Lost => {}
            Step::ProposeTo(node) => self.propose(config, number, node),
            Step::ProposeToAll => {
                (asking.given, asking.grants) = (None, 0);
                (0..NODES).for_each(|node| self.propose(config, number, node));
            }
            Step::Ended(verdict) => self.ended(config, number, verdict),
        }
    }

    fn ended(&mut self, config: &QuorumConfig, number: usize, verdict: Verdict) {
        let Phase::Asking(asking) = self.clients[number].phase.clone() else { return };
        let Verdict::Won { first, last } = verdict else {
            self.clients[number].phase = Phase::Waiting;
            self.clients[number].lost += 1;
            if self.clients[number].lost > MAX_LOST {
                self.breaks(config, QuorumLaw::NoCircle);
            }
            let notify = match config.has(PlantedBug::UndoPublishes) {
                true => NotifyWaiters::Yes,
                false => NotifyWaiters::No,
            };
            return self.retire(config, number, asking.lease, notify);
        };
        let range = match config.has(PlantedBug::MaximumOfMajority) {
            true => (asking.grants, asking.grants),
            false => (first.get(), last.get()),
        };
        let until = asking.begun + LEASE_TICKS;
        if config.ticks.is_some() && self.ticks >= until {
            self.clients[number].phase = Phase::Waiting;
            return self.retire(config, number, asking.lease, NotifyWaiters::Yes);
        }
        let overlaps = |(begin, end): &(u64, u64)| range.0 <= *end && *begin <= range.1;
        if asking.given.is_none_or(|given| range.0 <= given) || self.given.iter().any(overlaps) {
            self.breaks(config, QuorumLaw::TokenOrder);
        }
        self.given.push(range);
        let (lease, renewals_left) = (asking.lease, config.renewals);
        let holding = Holding { lease, until, last, renewals_left, renewal: None };
        self.clients[number].phase = Phase::Holding(holding);
    }

    /// Retires a lease: no request sets it from now on, and it is released wherever it may be.
    fn retire(&mut self, config: &QuorumConfig, number: usize, lease: u8, notify: NotifyWaiters) {
        self.clients[number].leases[usize::from(lease)].retired = true;
        self.release(config, number, lease, notify);
    }

    /// Drops the details of a lease that cannot exist any more, so that states which differ only in them are equal.
    fn forget(&mut self, number: usize, lease: u8) {
        let known = &mut self.clients[number].leases[usize::from(lease)];
        let is_over =
            |trace: &Trace| trace.residue.is_clean() && !trace.releasing && !trace.residue.is_open();
        if known.retired && known.nodes.iter().all(is_over) {
            known.nodes = Default::default();
        }
    }

    /// Sends the releases that are due.
    fn release(&mut self, config: &QuorumConfig, number: usize, lease: u8, notify: NotifyWaiters) {
        for node in 0..NODES {
            let now = config.time_of(node, self.ticks);
            let of_lease = &mut self.clients[number].leases[usize::from(lease)];
            let trace = &mut of_lease.nodes[node];
            let waits = trace.residue.is_open() && trace.proof_after.is_some_and(|after| now <= after);
            if !of_lease.retired || trace.releasing || trace.residue.is_clean() || waits {
                continue;
            }
            trace.releasing = true;
            let sort = Sort::Release { release: trace.residue.release(), notify };
            self.send(QuorumMessage { client: number, lease, node, slow: false, sort });
        }
        self.forget(number, lease);
    }

    /// Returns whether a renewal may start: one at a time, once time has advanced or the last one failed.
    fn may_renew(&self, holding: &Holding) -> bool {
        let is_over = |last: &Renewal| last.begun < self.ticks || last.ruling() == Some(Ruling::Unknown);
        holding.renewals_left > 0 && holding.renewal.as_ref().is_none_or(is_over)
    }

    /// Returns whether all other nodes still have their counters.
    fn others_remember(&self, node: usize) -> bool {
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

    fn renew(&mut self, config: &QuorumConfig, number: usize) {
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
    fn extended(
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
