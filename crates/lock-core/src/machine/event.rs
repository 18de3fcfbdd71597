//! What happens to a machine.

use crate::{
    backend::{Acquired, Applied, BackendError, Released, Renewed, Reply},
    ids::LeaseNumber,
    terms::Terms,
    time::Moment,
    token::FencingToken,
};

/// A waiting acquire; numbers rise in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId(pub u64);

/// Who may re-enter: a number that is unique in the factory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub u64);

/// A release that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Somebody wants the lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The waiter.
    pub waiter: WaiterId,
    /// Who it is.
    pub owner: OwnerId,
    /// Whether the owner was named by the caller, so that other waiters may be the same.
    pub owned: bool,
    /// Under which terms.
    pub terms: Terms,
    /// How long it waits.
    pub wait_policy: WaitPolicy,
    /// The hold that it must re-enter, if it came through a guard.
    pub join: Option<HoldId>,
}

/// A hold, as guards name it. The token alone would not do: where a store loses its counter and its clock steps back,
/// tokens can repeat, and the guard of a lost hold would free the hold of somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId {
    /// The lease; by local hand-off one lease may serve many holds.
    pub lease: LeaseNumber,
    /// The fencing token.
    pub token: FencingToken,
}

/// How long a waiter waits for a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitPolicy {
    /// One try, no waiting.
    NoWait,
    /// Until then.
    Deadline(Moment),
    /// As long as it takes.
    Unbounded,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants the lock.
    Enter(Entry),
    /// A waiter went away; it was neither granted nor refused.
    Leave {
        /// Which.
        waiter: WaiterId,
    },
    /// The answer to [`Command::TryAcquire`](super::Command::TryAcquire); exactly one for each.
    Acquired {
        /// The lease that asked.
        lease: LeaseNumber,
        /// The answer.
        outcome: Result<Reply<Acquired>, Failure>,
    },
    /// The answer to [`Command::Renew`](super::Command::Renew).
    Renewed {
        /// The lease.
        lease: LeaseNumber,
        /// When that renewal was sent.
        sent: Moment,
        /// The answer.
        outcome: Result<Reply<Renewed>, Failure>,
    },
    /// The answer to [`Command::Release`](super::Command::Release).
    Released {
        /// The lease.
        lease: LeaseNumber,
        /// The depth that was asked to be left.
        depth_left: u32,
        /// The answer.
        outcome: Result<Reply<Released>, Failure>,
    },
    /// The answer to [`Command::Watch`](super::Command::Watch).
    Watched(WatchAnswer),
    /// The answer to [`Command::Unwatch`](super::Command::Unwatch).
    Unwatched(WatchAnswer),
    /// The lock may be free now.
    Woken,
    /// Wake-ups may have been missed, those of all names: try again within a moment that is drawn at random, so that the
    /// names and processes of a fleet do not ask in the same instant.
    MissedWakes,
    /// The machine may have slept, or the server may have lost its data: check the hold now.
    Suspicion,
    /// A guard was released by hand.
    Release {
        /// Its hold.
        hold: HoldId,
        /// Where the answer goes.
        ticket: Ticket,
    },
    /// A guard was dropped.
    Drop {
        /// Its hold.
        hold: HoldId,
    },
    /// Somebody compared the clock and saw the deadline of this hold pass; there is no way back from that.
    Expired {
        /// The hold.
        hold: HoldId,
    },
    /// Renewals of other locks are about to be sent: renew with them if the renewal is due within a twentieth of the lease.
    RenewEarly,
    /// Time passed.
    Tick,
    /// The factory shuts down.
    Shutdown,
}

/// Whether a subscription was made, or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchAnswer {
    /// The server acknowledged it.
    Acknowledged,
    /// It failed, or nobody knows.
    Failed,
}

/// How an operation failed, as far as the machine cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Failure {
    /// Whether it may have been carried out.
    pub applied: Applied,
    /// Whether trying again makes sense.
    pub retryable: bool,
}

impl Failure {
    /// No answer came.
    pub const UNKNOWN: Self = Self { applied: Applied::Unknown, retryable: true };
}

impl From<&BackendError> for Failure {
    fn from(e: &BackendError) -> Self {
        Self { applied: e.applied(), retryable: e.is_retryable() }
    }
}
