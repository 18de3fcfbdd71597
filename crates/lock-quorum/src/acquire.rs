//! Carries out a round: sends the proposal to all nodes at once and lets the first majority decide.

use crate::{
    gather::{Gather, pause},
    node::NodeReply,
    node_state::Outcome,
    release::Cleanup,
    round::{Answer, Round, Step, Verdict},
    rules::{Proposal, Vote},
    shared::{GRACE, LeaseRecord, STRAGGLER_TIMEOUT, Shared, left_out},
};
use lock_core::{
    __private::in_background,
    backend::{
        AcquireRequest, Acquired, Applied, BackendError, BackendErrorKind, Floor, Reply, VoteKind, Votes,
    },
    clock::Moment,
};
use std::{future::ready, sync::Arc, time::Duration};

/// Upper bound of the random delay after a split vote, as a multiple of the round's duration. The bound lies
/// between [`MIN_SPREAD`] and [`MAX_SPREAD`].
const SPREAD: u32 = 10;
const MIN_SPREAD: Duration = Duration::from_millis(10);
const MAX_SPREAD: Duration = Duration::from_secs(1);
/// Divisor of a round's budget. The round ends early by the quotient, so that its error reaches the caller in time.
const KEPT: u32 = 10;

/// A round in progress. If it is dropped before it ends, its outcome is unknown and the caller must release the lease.
struct Attempt {
    shared: Arc<Shared>,
    record: Arc<LeaseRecord>,
    request: AcquireRequest,
    floor: Floor,
    round: Round,
    coming: Option<Gather<Sent>>,
    /// Time until each node may vote; zero for nodes that already may.
    quarantines: Vec<Duration>,
    /// The moment after which no node executes a proposal, assuming that the clock estimates are correct.
    over: Moment,
}

struct Sent {
    node: usize,
    number: u32,
    at: Moment,
    answer: Result<NodeReply<Vote>, BackendError>,
}

/// Acquires the lock for `request.lease` if a majority grants it.
pub(crate) async fn acquire(
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
        let message = "an earlier lease with this id is still being released: acquire with a new id";
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
        // Votes that are still in flight may complete a majority.
        None => {
            return Err(shared.no_majority("confirmed the grant in time", Applied::Unknown, votes));
        }
        Some(Verdict::Won { first, last }) => {
            attempt.record.granted(last, attempt.request.retention);
            return Ok(shared.reply(Acquired::Granted { first, last }, votes));
        }
        Some(Verdict::Busy { remaining }) => Ok(Acquired::Busy { remaining }),
        Some(Verdict::Contended) => {
            let spread = (shared.clock.now().since(begun) * SPREAD).clamp(MIN_SPREAD, MAX_SPREAD);
            let micros = u64::try_from(spread.as_micros()).unwrap_or(u64::MAX);
            let retry_after = Duration::from_micros(shared.random.jitter() % micros);
            Ok(Acquired::Contended { retry_after })
        }
        Some(Verdict::Late) => Ok(Acquired::Late),
        // The round is decided and undone, so the lock is certainly not granted.
        Some(Verdict::Failed) => Err(shared.no_majority("granted the lock", Applied::No, votes.clone())),
    };
    attempt.undo();
    outcome.map(|outcome| shared.reply(outcome, votes))
}

/// Returns the lease's record. If an earlier use of the lease id is still being released, waits until that release has
/// ended, because it would delete the new grant. Returns `None` if the release has not ended by `until`.
async fn fresh_record(shared: &Shared, request: &AcquireRequest, until: Moment) -> Option<Arc<LeaseRecord>> {
    loop {
        let now = shared.clock.now();
        let record = shared.leases.open(&request.name, request.lease, shared.nodes.len(), now);
        if !record.is_retired() {
            return Some(record);
        }
        if now >= until {
            return None;
        }
        let changed = record.changed.notified();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        // Removed before that: nothing would be notified.
        let known = shared.leases.find(&request.name, request.lease);
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
        let number = ballot.number;
        if self.shared.ask(node, at).is_err() {
            return coming.push(ready(Sent { node, number, at, answer: Err(left_out()) }));
        }
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
        let backend = member.backend.clone();
        coming.push(async move { Sent { node, number, at, answer: backend.propose(proposal).await } });
    }

    /// Returns the round's verdict, or `None` if there is none by `deadline`.
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

    /// Undoes a lost round: releases its lease on every node that may have it, without notifying waiters.
    fn undo(mut self) {
        if let Some(coming) = self.coming.take() {
            in_background(settle(self.shared.clone(), self.record.clone(), coming));
        }
        in_background(Cleanup::undo(&self.shared, self.record.clone()).finish());
    }
}

/// Continues to record the replies in flight, in the background. Late grants in a won round are kept. After a dropped
/// round, the replies show where the lease has to be released.
impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(coming) = self.coming.take() {
            in_background(settle(self.shared.clone(), self.record.clone(), coming));
        }
    }
}

/// Updates the node's state and the lease's record from a reply, and returns the reply.
fn note(shared: &Shared, record: &LeaseRecord, sent: Sent) -> Sent {
    match &sent.answer {
        Ok(reply) => shared.learn(sent.node, sent.at, reply.now),
        Err(error) => shared.failed(sent.node, sent.at, error),
    }
    let is_set = |reply: &NodeReply<Vote>| reply.outcome == Vote::Granted;
    record.answered(sent.node, Outcome::of(&sent.answer, is_set));
    sent
}

/// Records the replies that arrive after the decision, for up to [`STRAGGLER_TIMEOUT`].
async fn settle(shared: Arc<Shared>, record: Arc<LeaseRecord>, mut coming: Gather<Sent>) {
    let until = shared.clock.now() + STRAGGLER_TIMEOUT;
    while let Some(sent) = coming.next(&*shared.clock, until).await {
        note(&shared, &record, sent);
    }
    if !coming.is_empty() {
        record.give_up();
    }
}
