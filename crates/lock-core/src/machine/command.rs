//! What a machine wants done.

use super::event::{HoldId, OwnerId, Ticket, WaiterId};
use crate::{
    backend::{AcquireMode, Applied, NotifyWaiters},
    ids::LeaseNumber,
    terms::Terms,
    time::{Moment, ServerTime},
    token::FencingToken,
};
use std::time::Duration;

/// What is to be done. The first five are IO: each is answered by exactly one event, at the latest when its
/// operation timeout has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Ask the store for the lock, or for a greater depth.
    TryAcquire {
        /// The lease that asks.
        lease: LeaseNumber,
        /// How long it shall last, and the operation timeout.
        terms: Terms,
        /// When the request becomes void.
        not_after: ServerTime,
        /// The kind of acquire.
        mode: AcquireMode,
    },
    /// Extend the lease.
    Renew {
        /// The lease.
        lease: LeaseNumber,
        /// How long it shall last, and the operation timeout.
        terms: Terms,
        /// When the request becomes void.
        not_after: ServerTime,
        /// Now; comes back with the answer.
        sent: Moment,
    },
    /// Lower the depth, or free the lock.
    Release {
        /// The lease.
        lease: LeaseNumber,
        /// The depth that is left.
        depth_left: u32,
        /// Whether the store notifies waiters.
        notify: NotifyWaiters,
        /// The operation timeout.
        timeout: Duration,
    },
    /// Subscribe to wake-ups.
    Watch,
    /// End the subscription.
    Unwatch,
    /// The waiter has the lock.
    Grant {
        /// Which.
        waiter: WaiterId,
        /// What it has.
        grant: Grant,
    },
    /// The waiter will not get the lock.
    Refuse {
        /// Which.
        waiter: WaiterId,
        /// Why.
        refusal: Refusal,
    },
    /// The hold is valid for longer.
    Extended {
        /// Which.
        hold: HoldId,
        /// Until then; never earlier than before.
        deadline: Moment,
    },
    /// The hold is over; said exactly once for each.
    Ended {
        /// Which.
        hold: HoldId,
        /// How.
        how: HoldEnd,
    },
    /// A guard left, and this is what it did. A release by hand is answered when the store has answered, a drop at once.
    ReleaseAnswered {
        /// The release that waits for the answer; `None` for a dropped guard.
        ticket: Option<Ticket>,
        /// The answer.
        answer: ReleaseAnswer,
    },
    /// Something that people should know.
    Notice(Notice),
}

/// What a waiter was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The hold: its lease in the store, its fencing token.
    pub hold: HoldId,
    /// Who holds.
    pub owner: OwnerId,
    /// Until when the hold is valid without renewal.
    pub deadline: Moment,
    /// When the hold ends although it is renewed; never changes.
    pub max_hold_at: Moment,
    /// How many guards the hold has now.
    pub depth: u32,
    /// How it came about.
    pub by: GrantSource,
}

/// The origin of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GrantSource {
    /// The store gave the lock to this process.
    Store,
    /// The owner already held it.
    Reentry,
    /// The previous holder of this process passed its lease on.
    HandOff,
}

/// Why a waiter does not get the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// It wanted one try, and somebody else holds the lock.
    Busy,
    /// Its waiting time is over, while others hold the lock or wait before it. `Unknown` if an attempt of its own is under
    /// way or in doubt; it is undone.
    Timeout(Applied),
    /// Too many wait for this name.
    TooManyWaiters,
    /// The backend failed for longer than the outage budget.
    Outage,
    /// The same, or its waiting time is over, while a request of unknown outcome is about: it is undone.
    Unanswered,
    /// The backend failed, and trying again makes no sense or was not wanted. An attempt that may have been carried out
    /// is undone.
    Failed(Applied),
    /// Too many earlier attempts are being undone, and the backend has carried out none of these undos.
    TooManyUndos,
    /// The hold that it wanted to re-enter was lost.
    Lost,
    /// The token of the hold that it wanted to re-enter does not exceed its floor.
    BelowFloor(FencingToken),
    /// The factory shuts down.
    ShutDown,
}

/// The end of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldEnd {
    /// Its last guard was released.
    Released,
    /// It was lost before its guards were released.
    Lost(LostReason),
}

/// Why a hold was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// Its deadline passed without a renewal, or the fixed lease was over.
    Expired,
    /// The store no longer had the lease: it was freed by force, or the store lost its data.
    Gone,
    /// The hold reached `max_hold`.
    MaxHold,
    /// The future that acquired it was not polled for half a lease, so nobody took the guard.
    Unclaimed,
    /// The factory was shut down.
    ShutDown,
}

/// The result of a release that the store confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// The lock was held until now, and is free.
    Released,
    /// The lock was held until now, and went to the next waiter of this process, with a higher fencing token; see
    /// [`LockOptions::hand_off`](crate::LockOptions::hand_off). The store was not asked: its deadline had not passed.
    HandedOn,
    /// The lock was held until now; its owner has further guards.
    StillHeld {
        /// The number of guards that are left.
        depth: u32,
    },
    /// The hold had ended before: what was done last was not protected.
    AlreadyExpired,
    /// The hold had ended before, and another holds the lock: what was done last was not protected.
    HeldByOther,
}

impl ReleaseOutcome {
    /// Whether the lock was held until the release: what was done last was protected.
    #[must_use]
    pub fn was_held(self) -> bool {
        match self {
            Self::Released | Self::HandedOn | Self::StillHeld { .. } => true,
            Self::AlreadyExpired | Self::HeldByOther => false,
        }
    }
}

/// The store did not confirm that the lock was held until its release: it did not answer in time (then the release is
/// repeated in the background, and at the latest the lease ends by itself), or an earlier answer was lost, and the lease
/// was gone when it was asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unconfirmed;

/// The result of a release.
pub type ReleaseAnswer = Result<ReleaseOutcome, Unconfirmed>;

/// The result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RenewalOutcome {
    /// The lease was extended.
    Renewed,
    /// The store no longer had the lease.
    Gone,
    /// The store failed or did not answer.
    Failed,
}

/// Something that people should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Notice {
    /// A renewal was answered, or given up.
    Renewal {
        /// How it went.
        outcome: RenewalOutcome,
        /// The time since it was sent.
        took: Duration,
        /// How long the hold is valid now; zero if it is over.
        remaining: Duration,
    },
    /// A renewal failed; the hold is suspect and will be retried until its deadline.
    RenewalFailed {
        /// The hold.
        token: FencingToken,
        /// How long the hold is still valid.
        remaining: Duration,
    },
    /// Somebody in this process has waited longer than a lease for a hold of this process: perhaps for itself.
    SelfDeadlock {
        /// The hold.
        token: FencingToken,
        /// For how long.
        waited: Duration,
    },
}
