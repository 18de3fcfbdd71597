//! The state of a machine, as plain data. The other files of the machine read and change it.

use super::{
    backoff::Backoff,
    event::{HoldId, OwnerId, WaiterId},
    fairness::Fairness,
    outstanding::Outstanding,
    queue::Queue,
    replies::ReleaseReplies,
};
use crate::{
    ids::{FencingToken, LeaseNumber},
    options::Terms,
    time::{Moment, UtcTime},
};
use std::time::Duration;

/// The configuration shared by all machines of a factory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MachineConfig {
    /// The maximum number of waiters for one name.
    pub max_waiters: u32,
    /// `true` if the backend pushes wake-ups.
    pub push: bool,
    /// The longest time between two attempts for a waiter whose subscription is not acknowledged.
    pub unsubscribed_poll: Duration,
    /// `true` if every attempt needs its own lease id, as a quorum requires.
    pub lease_per_attempt: bool,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            max_waiters: 10_000,
            push: true,
            unsubscribed_poll: Duration::from_secs(5),
            lease_per_attempt: false,
        }
    }
}

/// The state of one lock name in this process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    pub(super) config: MachineConfig,
    pub(super) queue: Queue,
    pub(super) acquisition: Option<Acquisition>,
    pub(super) hold: Option<Hold>,
    pub(super) cleanups: Vec<LeaseCleanup>,
    pub(super) lost_holds: Vec<LostHold>,
    pub(super) watch: Watch,
    pub(super) backoff: Backoff,
    pub(super) fairness: Fairness,
    pub(super) closed: bool,
}

/// The attempts to acquire the lock for the front of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Acquisition {
    /// The lease id of the latest attempt.
    pub(super) lease: LeaseNumber,
    pub(super) attempt: Option<Attempt>,
    pub(super) next_try: Moment,
    pub(super) outstanding: Outstanding,
    /// The waiter of the latest attempt.
    pub(super) asked_for: Option<WaiterId>,
    /// The time of the latest busy reply; before the first one, the time at which the acquisition began.
    pub(super) answered_at: Moment,
    /// Set once the store granted an attempt but no waiter could use the grant.
    pub(super) taken: bool,
    /// The longest lease that the store may have granted to this id.
    pub(super) longest: Duration,
    pub(super) busies: u32,
    pub(super) lates: u32,
}

/// A request for the lock that is in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) waiter: WaiterId,
    pub(super) sent: Moment,
    pub(super) terms: Terms,
    pub(super) not_after: UtcTime,
    /// Set if a wake-up came after the attempt was sent: a busy reply may be older than the release.
    pub(super) woken: bool,
    /// Set by a suspicion while the attempt was in flight: if it is granted, its hold is suspect.
    pub(super) suspect: bool,
}

/// The hold that guards refer to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) id: HoldId,
    pub(super) owner: OwnerId,
    /// The last token of the range that the acquire reserved for hand-offs.
    pub(super) last_token: FencingToken,
    pub(super) terms: Terms,
    /// The end of the hold's validity; never decreases.
    pub(super) deadline: Moment,
    pub(super) guards: u32,
    pub(super) depth: Depth,
    pub(super) renewal: Renewal,
    pub(super) outstanding: Outstanding,
    /// Set once the last guard is released; the lease is released in the store once nothing else is in flight.
    pub(super) ended: bool,
    pub(super) max_hold_at: Moment,
    /// The time until which the lock stays taken, even after the last guard is released.
    pub(super) kept_until: Moment,
    /// The time by which the first guard must have been taken.
    pub(super) claim_by: Moment,
    pub(super) local_wait: LocalWait,
    /// Set if the last guard was dropped in this step.
    pub(super) dropped: bool,
    pub(super) chain: Chain,
}

/// The hand-offs since the store granted the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Chain {
    pub(super) granted_at: Moment,
    pub(super) is_used: bool,
}

/// Tracks how long waiters in this process have waited for this hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LocalWait {
    None,
    Since(Moment),
    Noticed,
}

/// A lost hold whose guards have not all been released.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LostHold {
    pub(super) owner: OwnerId,
    pub(super) hold: HoldId,
    pub(super) guards: u32,
}

/// The re-entrancy depth of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Depth {
    /// The depth that the store is known to keep; `None` after an operation whose outcome is unknown.
    pub(super) stored: Option<u32>,
    pub(super) change: Option<DepthChange>,
    /// Releases that wait for a reply from the store.
    pub(super) replies: ReleaseReplies,
    pub(super) failures: u32,
    pub(super) lates: u32,
    pub(super) retry_at: Moment,
}

/// An operation in flight that changes the depth.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum DepthChange {
    /// The re-entries of these waiters.
    Raise {
        to: u32,
        waiters: Vec<WaiterId>,
        sent: Moment,
        terms: Terms,
    },
    Lower {
        to: u32,
    },
}

/// The renewals of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Renewal {
    pub(super) next_at: Moment,
    pub(super) in_flight: u32,
    pub(super) failures: u32,
    pub(super) suspect: bool,
}

/// An abandoned lease id, kept until no lease with the id can be left in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LeaseCleanup {
    pub(super) lease: LeaseNumber,
    pub(super) outstanding: Outstanding,
    pub(super) replies: ReleaseReplies,
    pub(super) in_flight: bool,
    pub(super) next_at: Moment,
    /// The first release is sent no earlier than this.
    pub(super) kept_until: Moment,
    pub(super) failures: u32,
    /// Set if an earlier release may have been applied: *gone* then proves nothing about the time before it.
    pub(super) in_doubt: bool,
    /// The deadline of the hold, if its last guard was released before it: all work under the hold was protected.
    pub(super) left_before: Option<Moment>,
    /// Set until the first reply. Until then, the next acquire waits, since it might find the lock taken by this lease.
    pub(super) unanswered: bool,
    /// Set once a release was executed: an attempt can then be applied for at most one more operation timeout.
    pub(super) executed: bool,
}

/// The subscription to a name; at most one per process and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    pub(super) state: WatchState,
    /// Set if an attempt has found the lock busy since the subscription was last off.
    pub(super) wanted: bool,
    pub(super) failures: u32,
    pub(super) linger_until: Option<Moment>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) enum WatchState {
    #[default]
    Off,
    Asking,
    On,
    /// Not off yet: the `Unwatch` would undo a new `Watch` that overtakes it.
    Leaving,
    /// Unknown. From this moment on, the subscription is requested again or, if nobody waits, ended. A forgotten
    /// subscription would stay forever.
    InDoubt(Moment),
}
