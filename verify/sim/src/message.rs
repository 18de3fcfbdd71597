//! The messages between a process and the store.

use lock_core::{
    LockName,
    backend::{
        AcquireRequest, Acquired, Applied, BackendError, BackendErrorKind, ForceReleaseRequest,
        ForceReleased, Inspected, LeaseId, MissedWakes, ReleaseRequest, Released, RenewRequest, Renewed,
        Reply, WakeListener,
    },
    clock::UtcTime,
};
use lock_quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, Vote};
use std::sync::Weak;

#[derive(Debug, Clone)]
pub(crate) enum Request {
    Acquire(AcquireRequest),
    Renew(Vec<RenewRequest>),
    Release(ReleaseRequest),
    Propose(Proposal),
    Extend(Vec<Extension>),
    Heal(Healing),
    Watch(LockName),
    Unwatch(LockName),
    Inspect(LockName),
    Force(ForceReleaseRequest),
    /// Acquires, renewals and releases that share a call and are executed independently.
    Batch(Vec<Request>),
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Acquired(Reply<Acquired>),
    Renewed(Vec<Reply<Renewed>>),
    Released(Reply<Released>),
    Voted(NodeReply<Vote>),
    Extended(Vec<NodeReply<Extended>>),
    Healed(NodeReply<Healed>),
    Done,
    Inspected(Reply<Inspected>),
    ForceReleased(Reply<ForceReleased>),
    /// The answers to the requests of a batch, in order.
    Batch(Vec<Answer>),
    Failed(Applied),
}

/// A notification from a backend to its factory.
#[derive(Debug, Clone)]
pub(crate) enum Notification {
    Freed(LockName),
    All(MissedWakes),
    Restarted,
}

impl Notification {
    /// Calls a factory, which may call observers. No mutex may be held.
    pub(crate) fn deliver(&self, to: &Weak<dyn WakeListener>) {
        let Some(signals) = to.upgrade() else { return };
        match self {
            Self::Freed(name) => signals.released(name),
            Self::All(reason) => signals.wake_all(*reason),
            Self::Restarted => signals.server_restarted(),
        }
    }
}

/// A message under way.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) link: usize,
    pub(crate) connection: u64,
    /// The call that waits for the answer; `None` for a second delivery.
    pub(crate) call: Option<u64>,
    pub(crate) request: Request,
    pub(crate) fate: Fate,
    /// The delay of a second delivery after the first one, in ms.
    pub(crate) again: Option<u64>,
}

/// The fate of the answer, decided when the request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered {
        after: u64,
    },
    /// Executed, but the answer is lost.
    Silence,
    /// Executed, but the connection breaks before the answer arrives.
    Broken,
}

impl Request {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Acquire(_) => "sends acquire",
            Self::Renew(_) => "sends renew",
            Self::Release(_) => "sends release",
            Self::Propose(_) => "sends proposal",
            Self::Extend(_) => "sends extension",
            Self::Heal(_) => "sends heal",
            Self::Watch(_) => "sends watch",
            Self::Unwatch(_) => "sends unwatch",
            Self::Inspect(_) => "sends inspect",
            Self::Force(_) => "sends force",
            Self::Batch(_) => "sends batch",
        }
    }

    /// Returns the numbers of the request for the trace.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        match self {
            Self::Acquire(r) => (r.lease.number().get(), r.not_after.as_micros()),
            Self::Renew(items) => {
                (items.first().map_or(0, |item| item.lease.number().get()), items.len() as u64)
            }
            Self::Release(r) => (r.lease.number().get(), r.depth_left.into()),
            Self::Propose(p) => (p.lease.number().get(), p.token.get()),
            Self::Extend(items) => {
                (items.first().map_or(0, |item| item.lease.number().get()), items.len() as u64)
            }
            Self::Heal(h) => (h.lease.number().get(), h.last.get()),
            Self::Batch(requests) => {
                (requests.first().map_or(0, |first| first.numbers().0), requests.len() as u64)
            }
            _ => (0, 0),
        }
    }

    /// Returns the lease of each renewal, in the order of the answers; `None` for other requests of a batch.
    pub(crate) fn renewed_leases(&self) -> Vec<Option<LeaseId>> {
        match self {
            Self::Renew(items) => items.iter().map(|item| Some(item.lease)).collect(),
            Self::Batch(requests) => requests.iter().map(|request| request.renewed_leases().pop()?).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns `true` for an acquire, or a batch with one.
    pub(crate) fn acquires(&self) -> bool {
        match self {
            Self::Acquire(_) | Self::Propose(_) | Self::Heal(_) => true,
            Self::Batch(requests) => requests.iter().any(Self::acquires),
            _ => false,
        }
    }

    pub(crate) fn is_subscription(&self) -> bool {
        matches!(self, Self::Watch(_) | Self::Unwatch(_))
    }
}

impl Answer {
    pub(crate) fn server_now(&self) -> Option<UtcTime> {
        match self {
            Self::Acquired(reply) => Some(reply.now),
            Self::Renewed(replies) => replies.first().map(|reply| reply.now),
            Self::Released(reply) => Some(reply.now),
            Self::Voted(reply) => Some(reply.now),
            Self::Extended(replies) => replies.first().map(|reply| reply.now),
            Self::Healed(reply) => Some(reply.now),
            Self::Inspected(reply) => Some(reply.now),
            Self::ForceReleased(reply) => Some(reply.now),
            Self::Batch(answers) => answers.iter().find_map(Self::server_now),
            Self::Done | Self::Failed(_) => None,
        }
    }

    /// Returns `true` if the answer reports that a request of a batch was not executed.
    pub(crate) fn is_refused_in_part(&self) -> bool {
        matches!(self, Self::Batch(answers) if answers.iter().any(|answer| matches!(answer, Self::Failed(_))))
    }

    /// Returns the outcome of each renewal, in the order of the requests; `None` for other answers of a batch.
    pub(crate) fn renewals(&self) -> Vec<Option<Renewed>> {
        match self {
            Self::Renewed(replies) => replies.iter().map(|reply| Some(reply.outcome)).collect(),
            Self::Batch(answers) => answers.iter().map(|answer| answer.renewals().pop()?).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the name of the answer for the trace.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Acquired(reply) => match reply.outcome {
                Acquired::Granted { .. } => "hears granted",
                Acquired::Reentered => "hears re-entered",
                Acquired::Busy { .. } => "hears busy",
                Acquired::Late => "hears late",
                _ => "hears gone",
            },
            Self::Renewed(replies) => match replies.iter().all(|r| r.outcome == Renewed::Renewed) {
                true => "hears renewed",
                false => "hears not renewed",
            },
            Self::Released(reply) => match reply.outcome {
                Released::Released { .. } => "hears released",
                Released::Kept => "hears lowered",
                _ => "hears nothing to release",
            },
            Self::Voted(reply) => match reply.outcome {
                Vote::Granted => "hears a vote",
                _ => "hears no vote",
            },
            Self::Extended(_) => "hears of extensions",
            Self::Healed(_) => "hears of a heal",
            Self::Done => "hears done",
            Self::Inspected(_) => "hears who holds",
            Self::ForceReleased(_) => "hears forced",
            Self::Batch(_) => "hears a batch",
            Self::Failed(_) => "hears of a failure",
        }
    }
}

pub(crate) fn failure(applied: Applied) -> BackendError {
    BackendError::new(BackendErrorKind::Unavailable, applied, "simulated: the store was not reached")
}
