//! Carries out a round: proposals go to all nodes at once, and the first majority decides.

use super::{
    background::go_on,
    cleanup::{Cleanup, outcome_of},
    gather::Gather,
    leases::LeaseRecord,
    node::{NodeReply, Proposal, Vote},
    round::{Answer, Round, Step, Verdict},
    shared::{GRACE, STRAGGLER_TIMEOUT, Shared},
    timer::pause,
};
use crate::{
    backend::{
        AcquireRequest, Acquired, Applied, BackendError, BackendErrorKind, Floor, Reply, VoteKind, Votes,
    },
    time::Moment,
};
use std::{sync::Arc, time::Duration};

/// The random delay after a split vote is below this many times the duration of the round, within these bounds.
const SPREAD: u32 = 10;
const MIN_SPREAD: Duration = Duration::from_millis(10);
const MAX_SPREAD: Duration = Duration::from_secs(1);
/// The part of the time of a round that is kept for its error to reach the caller.
const KEPT: u32 = 10;

/// A round under way. Dropped before its end, it leaves an unknown outcome: the caller releases the lease.
struct Attempt {
    shared: Arc<Shared>,
    record: Arc<LeaseRecord>,
    request: AcquireRequest,
    floor: Floor,
    round: Round,
    coming: Option<Gather<Sent>>,
    /// The ages of nodes that are too young to vote.
    quarantines: Vec<Duration>,
    /// No node executes a proposal after this moment, as far as the clocks are known.
    over: Moment,
}

struct Sent {
    node: usize,
    number: u32,
    at: Moment,
    answer: Result<NodeReply<Vote>, BackendError>,
}

/// Takes the lock for `request.lease`, if a majority grants it.
pub(super) async fn acquire(
    shared: &Arc<Shared>,
    request: AcquireRequest,
    reserve: u32,
    floor: Floor,
) -> Result<Reply<Acquired>, BackendError> {
    if let Some(error) = shared.too_long(request.duration) {
        return Err(error);
    }
    let begun = shared.clock.now();
    let Some(budget) = shared.budget(begun, request.not_after, request.duration) else {
        return Ok(shared.reply(Acquired::Late, Votes::none()));
    };
    let clock = shared.quorum_time(begun).as_micros();
    let nodes = shared.nodes.len();
    let Some(record) = fresh_record(shared, &request, begun + budget).await else {
        let message = "acquired with a lease id that is still being released: use a fresh id";
        return Err(BackendError::new(BackendErrorKind::Unavailable, Applied::No, message));
    };
    let round = Round::begin(nodes, reserve, floor.max(record.reached()), clock);
    let mut attempt = Attempt {
        shared: shared.clone(),
        record,
        request,
        floor,
        round,
        coming: Some(Gather::new()),
        quarantines: vec![Duration::ZERO; nodes],
        over: begun + budget,
    };
    attempt.propose_to_all();
    let ended = attempt.decide(begun + (budget - budget / KEPT)).await;
    let votes = attempt.votes();
    let outcome = match ended {
        // The votes that are still under way may be a majority.
        None => {
            return Err(shared.no_majority("answered in time", Applied::Unknown, votes));
        }
        Some(Verdict::Won { first, last }) => {
            attempt.record.granted(last, attempt.request.retention);
            return Ok(shared.reply(Acquired::Granted { first, last }, votes));
        }
        Some(Verdict::Busy { remaining }) => Ok(Acquired::Busy { remaining }),
        Some(Verdict::Contended) => {
            let spread = (shared.clock.now().since(begun) * SPREAD).clamp(MIN_SPREAD, MAX_SPREAD);
            let micros = u64::try_from(spread.as_micros()).unwrap_or(u64::MAX);
            let retry_after = Duration::from_micros(shared.random.number() % micros);
            Ok(Acquired::Contended { retry_after })
        }
        Some(Verdict::Late) => Ok(Acquired::Late),
        // Decided and undone: it certainly is not granted.
        Some(Verdict::Failed) => Err(shared.no_majority("granted the lock", Applied::No, votes.clone())),
    };
    attempt.undo();
    outcome.map(|outcome| shared.reply(outcome, votes))
}

/// The record of the lease. Of an id that is used again, the releases of its earlier use come to their end first: one of them
/// would delete the new grant.
async fn fresh_record(shared: &Shared, request: &AcquireRequest, until: Moment) -> Option<Arc<LeaseRecord>> {
    loop {
        let now = shared.clock.now();
        let record = shared.leases.open(&request.name, request.lease, shared.nodes.len(), now);
        let changed = record.changed.notified();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        let known = shared.leases.find(&request.name, request.lease);
        if !record.is_retired() {
            return Some(record.clone());
        }
        if now >= until {
            return None;
        }
        if known.is_none_or(|known| !Arc::ptr_eq(&known, &record)) {
            continue;
        }
        tokio::select! {
            biased;
            () = changed => {}
            () = pause(&*shared.clock, until) => {}
        }
    }
}

impl Attempt {
    fn propose_to_all(&mut self) {
        self.record.proposes(self.round.proposal().last);
        (0..self.shared.nodes.len()).for_each(|node| self.propose(node));
    }

    fn propose(&mut self, node: usize) {
        let Some(coming) = &self.coming else { return };
        let (at, ballot) = (self.shared.clock.now(), self.round.proposal());
        let budget = self.over.since(at);
        let not_after = self.shared.not_after(node, at, budget);
        let request = &self.request;
        self.record.sent(node, not_after, self.over + request.duration);
        let member = &self.shared.nodes[node];
        let proposal = Proposal {
            name: request.name.clone(),
            lease: request.lease,
            duration: request.duration,
            not_after,
            token: ballot.token,
            last: ballot.last,
            floor: self.floor,
            min_age: member.min_age(self.shared.max_lease),
            retention: request.retention,
        };
        let (backend, number) = (member.backend.clone(), ballot.number);
        coming.push(async move { Sent { node, number, at, answer: backend.propose(proposal).await } });
    }

    /// The end of the round; `None` if it is undecided at `deadline`.
    async fn decide(&mut self, deadline: Moment) -> Option<Verdict> {
        let mut until = deadline;
        loop {
            let clock = self.shared.clock.clone();
            let Some(sent) = self.coming.as_mut()?.next(&*clock, until).await else {
                return self.round.is_lost().then(|| self.round.end());
            };
            match self.hear(sent) {
                Step::Wait => {}
                Step::ProposeTo(node) => self.propose(node),
                Step::ProposeToAll => self.propose_to_all(),
                Step::Lost => until = until.min(clock.now() + GRACE),
                Step::Ended(verdict) => return Some(verdict),
            }
        }
    }

    fn hear(&mut self, sent: Sent) -> Step {
        let Sent { node, number, answer, .. } = note(&self.shared, &self.record, sent);
        let answer = match answer {
            Ok(reply) => {
                self.quarantines[node] = self.shared.quarantine(node, reply.age).unwrap_or_default();
                Answer::Voted(reply.outcome)
            }
            Err(error) => Answer::Failed(error.to_string()),
        };
        let clock = self.shared.quorum_time(self.shared.clock.now()).as_micros();
        self.round.answered(node, number, answer, clock)
    }

    fn votes(&self) -> Votes {
        let kind = |(answer, left): (Option<&Answer>, &Duration)| -> Option<VoteKind> {
            answer.map(|answer| answer.kind(*left))
        };
        self.shared.votes(self.round.votes().zip(&self.quarantines).map(kind))
    }

    /// The round is lost: its lease is released wherever it may be, without a notification.
    fn undo(mut self) {
        if let Some(coming) = self.coming.take() {
            go_on(settle(self.shared.clone(), self.record.clone(), coming));
        }
        go_on(Cleanup::undo(&self.shared, self.record.clone()).finish());
    }
}

/// Late grants of a round that was won are kept; answers to one that was dropped say what is left to release.
impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(coming) = self.coming.take() {
            go_on(settle(self.shared.clone(), self.record.clone(), coming));
        }
    }
}

/// Keeps in the record of the lease what an answer says.
fn note(shared: &Shared, record: &LeaseRecord, sent: Sent) -> Sent {
    if let Ok(reply) = &sent.answer {
        shared.learn(sent.node, sent.at, reply.now);
    }
    let is_set = |reply: &NodeReply<Vote>| reply.outcome == Vote::Granted;
    record.answered(sent.node, outcome_of(&sent.answer, is_set));
    sent
}

/// Waits for the answers that no decision needs.
async fn settle(shared: Arc<Shared>, record: Arc<LeaseRecord>, mut coming: Gather<Sent>) {
    let until = shared.clock.now() + STRAGGLER_TIMEOUT;
    while let Some(sent) = coming.next(&*shared.clock, until).await {
        note(&shared, &record, sent);
    }
    if !coming.is_empty() {
        record.give_up();
    }
}
