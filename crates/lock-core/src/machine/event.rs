//! The input of a machine: the events that it handles, and the environment that it reads meanwhile.

use crate::{
    backend::{Acquired, Applied, BackendError, Released, Renewed, Reply},
    ids::{FencingToken, LeaseNumber, ProcessId},
    name::LockName,
    options::Terms,
    time::{Moment, UtcTime},
};

/// A waiting acquire; numbers increase in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId(pub u64);

/// The owner of a hold: a number that is unique in the factory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub u64);

/// A release that waits for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A request for the lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The waiter.
    pub waiter: WaiterId,
    /// The owner.
    pub owner: OwnerId,
    /// `true` if the caller chose the owner, so that other waiters may have the same one.
    pub owned: bool,
    /// The terms of the lock.
    pub terms: Terms,
    /// The limit of the wait.
    pub wait_policy: WaitPolicy,
    /// The re-entry, if requested through a guard.
    pub join: Option<Join>,
}

/// A re-entry that is requested through a guard of this hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Join {
    /// A fixed lease keeps its end, unless a longer one is requested.
    Reenter(HoldId),
    /// A fixed lease lasts at least the requested time from now.
    Extend(HoldId),
}

impl Join {
    pub(super) fn hold(self) -> HoldId {
        match self {
            Self::Reenter(hold) | Self::Extend(hold) => hold,
        }
    }
}

/// Identifies the hold that a guard belongs to. The token alone is not sufficient: if a store loses its counter and its
/// clock steps back, tokens can repeat, and the guard of a lost hold could release another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId {
    /// The lease. With local hand-off, one lease may serve many holds.
    pub lease: LeaseNumber,
    /// The fencing token.
    pub token: FencingToken,
}

/// The limit on the time that a waiter waits for a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitPolicy {
    /// A single attempt, without waiting.
    NoWait,
    /// Until this moment.
    Deadline(Moment),
    /// Without a limit.
    Unbounded,
}

/// An input to the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A new waiter.
    Enter(Entry),
    /// A waiter left; it was neither granted nor refused.
    Leave {
        /// The waiter.
        waiter: WaiterId,
    },
    /// The reply to an acquire.
    Acquired {
        /// The requested lease.
        lease: LeaseNumber,
        /// The reply.
        outcome: Result<Reply<Acquired>, Failure>,
    },
    /// The reply to a renewal.
    Renewed {
        /// The lease.
        lease: LeaseNumber,
        /// The time at which the machine requested it.
        sent: Moment,
        /// The reply.
        outcome: Result<Reply<Renewed>, Failure>,
    },
    /// The reply to a release.
    Released {
        /// The lease.
        lease: LeaseNumber,
        /// The depth that was to remain.
        depth_left: u32,
        /// The reply.
        outcome: Result<Reply<Released>, Failure>,
    },
    /// The reply to [`Command::Watch`](super::Command::Watch).
    Watched(WatchAnswer),
    /// The reply to [`Command::Unwatch`](super::Command::Unwatch).
    Unwatched(WatchAnswer),
    /// The lock may be free now.
    Woken,
    /// Wake-ups for all names may have been missed: retry after a short random delay, so that the processes of a fleet
    /// do not send requests for all names at the same instant.
    MissedWakes,
    /// The computer may have been suspended, or the store may have lost the lease: renew the hold now.
    Suspicion,
    /// A guard was released explicitly.
    Release {
        /// Its hold.
        hold: HoldId,
        /// The receiver of the reply.
        ticket: Ticket,
    },
    /// A guard was dropped.
    Drop {
        /// Its hold.
        hold: HoldId,
    },
    /// The weight of this permit is lowered to 1.
    Downgrade {
        /// The hold.
        hold: HoldId,
    },
    /// The lease of this hold must not be handed on.
    Pin {
        /// The hold.
        hold: HoldId,
    },
    /// A task found that the deadline of this hold has passed; the hold cannot become valid again.
    Expired {
        /// The hold.
        hold: HoldId,
    },
    /// Renewals of other locks are about to be sent: renew together with them if
    /// [`renewable_from`](super::Machine::renewable_from) has been reached.
    RenewEarly,
    /// Time passed.
    Tick,
    /// The factory is shutting down.
    Shutdown,
}

/// The result of subscribing or unsubscribing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchAnswer {
    /// The server acknowledged the request.
    Acknowledged,
    /// The request failed, or its outcome is unknown.
    Failed,
}

/// The failure of an operation, reduced to the distinctions that the machine makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Failure {
    /// Indicates whether the operation may have been applied.
    pub applied: Applied,
    /// `true` if a retry may succeed.
    pub retryable: bool,
}

impl Failure {
    /// The failure of an operation without a reply.
    pub const UNKNOWN: Self = Self { applied: Applied::Unknown, retryable: true };
}

impl From<&BackendError> for Failure {
    fn from(e: &BackendError) -> Self {
        Self { applied: e.applied(), retryable: e.is_retryable() }
    }
}

/// The environment of a machine while it handles an event.
pub trait Env {
    /// Returns the name of the lock, as the store knows it, and this process.
    fn address(&self) -> (LockName, ProcessId);
    /// Draws 63 or more random bits for a lease id. A copy of this process, in the same state, draws others. Returns
    /// `None` if the operating system has no random numbers.
    fn unique(&mut self) -> Option<u64>;
    /// Returns random bits for jitter.
    fn jitter(&mut self) -> u64;
    /// Returns the current estimate of the server's clock.
    fn server_now(&mut self) -> UtcTime;
    /// Returns the number of this hold's guards that were granted at or before this moment and that their futures have
    /// not taken yet.
    fn unclaimed(&mut self, hold: HoldId, granted_by: Moment) -> u32;
}
