//! All that a machine knows of one lock name: data alone. The other files of the machine read and change it.

use super::{
    backoff::Backoff,
    event::{HoldId, OwnerId, WaiterId},
    fairness::Fairness,
    outstanding::Outstanding,
    queue::Queue,
    replies::ReleaseReplies,
};
use crate::{
    ids::LeaseNumber,
    terms::Terms,
    time::{Moment, ServerTime},
    token::FencingToken,
};
use std::time::Duration;

/// What is the same for every machine of a factory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MachineConfig {
    /// The most waiters of one name.
    pub max_waiters: usize,
    /// Whether the backend pushes wake-ups.
    pub push: bool,
    /// How long a subscription outlives the last waiter.
    pub linger: Duration,
    /// The longest time between two tries of a waiter whose subscription is not acknowledged.
    pub unsubscribed_poll: Duration,
    /// Whether a lease id serves one attempt alone, as a quorum requires.
    pub lease_per_attempt: bool,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            max_waiters: 10_000,
            push: true,
            linger: Duration::from_secs(2),
            unsubscribed_poll: Duration::from_secs(5),
            lease_per_attempt: false,
        }
    }
}

/// All that this process knows of one lock name.
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

/// The tries to take the lock for the front of the queue, under one lease id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Acquisition {
    pub(super) lease: LeaseNumber,
    pub(super) attempt: Option<Attempt>,
    pub(super) next_try: Moment,
    pub(super) outstanding: Outstanding,
    /// For whom it was asked last, and when the store answered last.
    pub(super) asked_for: Option<WaiterId>,
    pub(super) answered_at: Moment,
    /// An attempt was granted, but not yet under the terms of the one who waits.
    pub(super) taken: bool,
    /// The longest lease that the store may have given to this id.
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
    pub(super) not_after: ServerTime,
    /// A wake-up came after the attempt was sent: its busy answer may be older than the release.
    pub(super) woken: bool,
}

/// What a guard stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) id: HoldId,
    pub(super) owner: OwnerId,
    /// The last token that the acquire drew; the end of the range for hand-offs.
    pub(super) last_token: FencingToken,
    pub(super) terms: Terms,
    /// Valid until then; never falls.
    pub(super) deadline: Moment,
    pub(super) guards: u32,
    pub(super) depth: Depth,
    pub(super) renewal: Renewal,
    pub(super) outstanding: Outstanding,
    /// The last guard left, and the store is asked as soon as the operation in flight is answered.
    pub(super) ended: bool,
    pub(super) max_hold_at: Moment,
    /// When the first guard must have been taken.
    pub(super) claim_by: Moment,
    pub(super) local_wait: LocalWait,
    /// The last guard was dropped in this step.
    pub(super) dropped: bool,
    pub(super) chain: Chain,
}

/// The hand-offs since the store granted the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Chain {
    pub(super) granted_at: Moment,
    pub(super) is_used: bool,
}

/// Whether somebody in this process waits for this hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LocalWait {
    None,
    Since(Moment),
    Noticed,
}

/// A hold that was lost while guards of it are still about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LostHold {
    pub(super) owner: OwnerId,
    pub(super) hold: HoldId,
    pub(super) guards: u32,
}

/// The re-entrancy depth of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Depth {
    /// What the store is known to keep; `None` after an operation of unknown outcome.
    pub(super) stored: Option<u32>,
    pub(super) change: Option<DepthChange>,
    /// Releases that wait for the store.
    pub(super) replies: ReleaseReplies,
    pub(super) failures: u32,
    pub(super) lates: u32,
    pub(super) retry_at: Moment,
}

/// An operation in flight that changes the depth.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum DepthChange {
    /// Re-entries of these waiters.
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

/// A lease id that was given up, until nothing of it can be left in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LeaseCleanup {
    pub(super) lease: LeaseNumber,
    pub(super) outstanding: Outstanding,
    pub(super) replies: ReleaseReplies,
    pub(super) in_flight: bool,
    pub(super) next_at: Moment,
    pub(super) failures: u32,
    /// An earlier release may have been carried out: *gone* then says nothing about the time before it.
    pub(super) in_doubt: bool,
    /// The last guard left before this deadline of its hold: what it protected was protected.
    pub(super) left_before: Option<Moment>,
    /// No answer yet: the next acquire waits, or it would find our own lease in its way.
    pub(super) unanswered: bool,
    /// A release of it was carried out: whatever it still leaves is over within an operation timeout.
    pub(super) executed: bool,
}

/// At most one subscription per process and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    pub(super) state: WatchState,
    /// A try found the lock busy since the subscription was last off.
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
    /// Not off yet: a new `Watch` that overtakes the `Unwatch` would be undone by it.
    Leaving,
    /// Nobody knows whether it stands. From then on it is asked for again or, if nobody waits, ended: a
    /// subscription that is forgotten would stay for ever.
    InDoubt(Moment),
}
