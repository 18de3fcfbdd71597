//! Renewals and re-entries: a lease is extended if a majority extends it in one round. Nodes that lost it are then
//! healed.

use crate::{
    gather::{Gather, Question, Sent, ask_all},
    node::NodeReply,
    node_state::Outcome,
    round::{Ruling, Word},
    rules::{Extended, Extension, Healed, Healing},
    shared::{GRACE, LeaseRecord, STRAGGLER_TIMEOUT, Shared, failed},
};
use lock_core::{
    __private::in_background,
    LockName,
    backend::{Applied, BackendError, LeaseId, Reply, VoteKind, Votes},
    clock::{Moment, UtcTime},
};
use std::{sync::Arc, time::Duration};

/// A lease to extend.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) name: LockName,
    pub(crate) lease: LeaseId,
    pub(crate) duration: Duration,
    /// Latest time at which the request may be executed, by the quorum's clock.
    pub(crate) not_after: UtcTime,
    pub(crate) depth: Option<u32>,
}

type Answer = Result<Reply<Extended>, BackendError>;

/// A node's answer to each item.
type Answers = Vec<Result<NodeReply<Extended>, BackendError>>;

/// An item in progress.
struct Asked {
    item: Item,
    /// Position of the item in the call.
    place: usize,
    /// The moment after which no node executes the request, assuming that the clock estimates are correct.
    over: Moment,
    question: Question,
    is_late: bool,
}

/// A round of extensions.
struct Extending {
    shared: Arc<Shared>,
    asked: Vec<Asked>,
    coming: Gather<Sent<Answers>>,
}

/// Extends leases. Returns one reply per item, in the same order.
pub(crate) async fn extend(shared: &Arc<Shared>, items: Vec<Item>) -> Vec<Answer> {
    let begun = shared.clock.now();
    let mut answers: Vec<Option<Answer>> = Vec::with_capacity(items.len());
    let mut asked = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        let refused = match shared.too_long(item.duration) {
            Some(error) => Some(Err(error)),
            None => match shared.budget(begun, item.not_after, item.duration) {
                None => Some(Ok(shared.reply(Extended::Late, Votes::none()))),
                Some(budget) => {
                    asked.push(Asked::new(item, place, begun + budget, shared.nodes.len()));
                    None
                }
            },
        };
        answers.push(refused);
    }
    let Some(deadline) = asked.iter().map(|asked| asked.over).min() else {
        return answers.into_iter().flatten().collect();
    };
    let deadline = deadline - deadline.since(begun) / 10;
    let mut extending = Extending::begin(shared, asked, begun);
    extending.decide(deadline).await;
    for asked in &extending.asked {
        answers[asked.place] = Some(asked.answer(shared));
    }
    in_background(extending.settle());
    answers.into_iter().flatten().collect()
}

impl Asked {
    fn new(item: Item, place: usize, over: Moment, nodes: usize) -> Self {
        Self { item, place, over, question: Question::new(nodes), is_late: false }
    }

    /// Records a node's reply.
    fn hear(&mut self, shared: &Shared, node: usize, answer: Result<NodeReply<Extended>, BackendError>) {
        let answer = match answer {
            Ok(NodeReply { outcome: Extended::Gone, .. }) => (Word::No, VoteKind::Gone),
            Ok(NodeReply { outcome: Extended::Late, .. }) => (Word::Out, VoteKind::Late),
            Ok(NodeReply { outcome: Extended::Extended, age, .. }) => match shared.quarantine(node, age) {
                // The node may have forgotten another lease, so its reply does not count.
                Some(left) => (Word::Out, VoteKind::Quarantined { left }),
                None => (Word::Yes, VoteKind::Extended),
            },
            Err(error) => failed(&error),
        };
        self.is_late |= answer.1 == VoteKind::Late;
        self.question.hear(node, answer);
    }

    /// Returns `true` if a majority has extended the lease.
    fn is_extended(&self) -> bool {
        self.question.ruling() == Some(Ruling::Yes)
    }

    /// Returns `true` if this node does not have the lease.
    fn is_gone(&self, node: usize) -> bool {
        self.question.kind(node) == Some(&VoteKind::Gone)
    }

    fn answer(&self, shared: &Shared) -> Answer {
        let votes = self.question.votes(shared);
        let outcome = match self.question.ruling() {
            Some(Ruling::Yes) => Extended::Extended,
            Some(Ruling::No) => Extended::Gone,
            Some(Ruling::Unknown) | None if self.is_late => Extended::Late,
            Some(Ruling::Unknown) | None => {
                return Err(shared.no_majority("confirmed the extension", Applied::Unknown, votes));
            }
        };
        Ok(shared.reply(outcome, votes))
    }
}

impl Extending {
    fn begin(shared: &Arc<Shared>, asked: Vec<Asked>, at: Moment) -> Self {
        // A node whose reply is lost may still execute the request.
        for asked in &asked {
            if let Some(record) = shared.leases.find(&asked.item.name, asked.item.lease) {
                record.extended(asked.over + asked.item.duration);
            }
        }
        let coming = ask_all(shared, |node, backend| {
            let extension = |asked: &Asked| Extension {
                name: asked.item.name.clone(),
                lease: asked.item.lease,
                duration: asked.item.duration,
                not_after: shared.not_after(node, at, asked.over.since(at)),
                depth: asked.item.depth,
            };
            let items: Vec<_> = asked.iter().map(extension).collect();
            async move { backend.extend(items).await }
        });
        Self { shared: shared.clone(), asked, coming }
    }

    /// Waits until every item is decided, or until `deadline`. Then heals the nodes that lost an extended lease.
    async fn decide(&mut self, deadline: Moment) {
        let mut until = deadline;
        while self.asked.iter().any(|asked| asked.question.ruling().is_none()) {
            let clock = self.shared.clock.clone();
            let Some(sent) = self.coming.next(&*clock, until).await else { break };
            self.hear(sent);
            let is_open = |asked: &Asked| asked.question.ruling().is_none() && !asked.question.is_lost();
            if !self.asked.iter().any(is_open) {
                until = until.min(clock.now() + GRACE);
            }
        }
        for asked in self.asked.iter().filter(|asked| asked.is_extended()) {
            let Some(record) = self.shared.leases.find(&asked.item.name, asked.item.lease) else { continue };
            if let Some(depth) = asked.item.depth {
                record.has_depth(depth);
            }
            for node in (0..self.shared.nodes.len()).filter(|node| asked.is_gone(*node)) {
                self.heal(asked, &record, node);
            }
        }
    }

    fn hear(&mut self, sent: Sent<Answers>) {
        let mut answers = sent.answer.into_iter();
        for asked in &mut self.asked {
            let unanswered = || Err(self.shared.no_majority("answered", Applied::Unknown, Votes::none()));
            let answer = answers.next().unwrap_or_else(unanswered);
            if let Ok(reply) = &answer {
                self.shared.learn(sent.node, sent.at, reply.now);
            }
            asked.hear(&self.shared, sent.node, answer);
        }
    }

    /// Waits for the stragglers, and heals those that lost an extended lease.
    async fn settle(mut self) {
        let until = self.shared.clock.now() + STRAGGLER_TIMEOUT;
        let clock = self.shared.clock.clone();
        while let Some(sent) = self.coming.next(&*clock, until).await {
            let node = sent.node;
            let were_extended: Vec<_> = self.asked.iter().map(Asked::is_extended).collect();
            self.hear(sent);
            for (asked, _) in self.asked.iter().zip(were_extended).filter(|(_, was_extended)| *was_extended) {
                let record = self.shared.leases.find(&asked.item.name, asked.item.lease);
                if let Some(record) = record.filter(|_| asked.is_gone(node)) {
                    self.heal(asked, &record, node);
                }
            }
        }
    }

    /// Restores a lease on a node that lost it while a majority has it.
    fn heal(&self, asked: &Asked, record: &Arc<LeaseRecord>, node: usize) {
        let (shared, item) = (&self.shared, &asked.item);
        let at = shared.clock.now();
        let not_after = shared.not_after(node, at, asked.over.since(at));
        let Some(granted) = record.heals(node, not_after, asked.over + item.duration) else { return };
        let healing = Healing {
            name: item.name.clone(),
            lease: item.lease,
            duration: item.duration,
            not_after,
            depth: granted.depth,
            last: granted.last,
            retention: granted.retention,
        };
        let (shared, record) = (shared.clone(), record.clone());
        in_background(async move {
            let mut coming = Gather::new();
            let backend = shared.nodes[node].backend.clone();
            coming.push(async move { backend.heal(healing).await });
            match coming.next(&*shared.clock, at + STRAGGLER_TIMEOUT).await {
                Some(answer) => {
                    if let Ok(reply) = &answer {
                        shared.learn(node, at, reply.now);
                    }
                    record.answered(node, Outcome::of(&answer, |reply| reply.outcome == Healed::Set));
                }
                None => record.give_up(),
            }
        });
    }
}
