//! The messages in flight between processes and the store, and the steps that may happen next.
//!
//! Within its budget of faults the world of this model is hostile. Otherwise it is instant: messages that are not
//! delayed arrive before time advances, in any order. It is kinder than the worst case in these ways:
//! - A plain acquire or a re-entry that is executed twice gets no answer, as the contract of a backend requires (*no
//!   silent resends*), and neither does a release that lowers the depth. [`Config::resends_answered`] lifts that.
//! - A subscription, or its end, is not executed after it timed out, because it died with its connection.
//! - Losing data takes longer than a millisecond, the time by which the token counter may run ahead of the clock.
//! - The server's clock does not step, as is assumed everywhere.
//!
//! [`Config::resends_answered`]: crate::Config::resends_answered

use lock_core::{
    FencingToken,
    backend::{Acquired, LeaseNumber, Released, Renewed, Reply},
    clock::{Moment, UtcTime},
    model::{Event, Failure, WatchAnswer},
};
use std::time::Duration;

/// A request to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Ask {
    /// A plain acquire.
    Take { lease: LeaseNumber, duration: Duration, not_after: UtcTime, reserve: u32 },
    /// A re-entry.
    Keep { lease: LeaseNumber, duration: Duration, not_after: UtcTime, depth: u32 },
    /// An acquire of a permit. A waiter has a place in the queue, with an id and a patience.
    Permit {
        lease: LeaseNumber,
        duration: Duration,
        not_after: UtcTime,
        weight: u32,
        limit: u32,
        place: Option<(LeaseNumber, Duration)>,
    },
    /// A renewal.
    Renew { lease: LeaseNumber, duration: Duration, not_after: UtcTime },
    /// A release.
    Release { lease: LeaseNumber, depth_left: u32 },
    /// A subscription.
    Watch,
    /// The end of the subscription.
    Unwatch,
}

impl Ask {
    /// Returns the lease that it concerns.
    #[must_use]
    pub fn lease(self) -> Option<LeaseNumber> {
        match self {
            Self::Take { lease, .. }
            | Self::Keep { lease, .. }
            | Self::Permit { lease, .. }
            | Self::Renew { lease, .. }
            | Self::Release { lease, .. } => Some(lease),
            Self::Watch | Self::Unwatch => None,
        }
    }

    /// Returns the place in the queue of a pool that it asks for.
    #[must_use]
    pub fn place(self) -> Option<LeaseNumber> {
        match self {
            Self::Permit { place, .. } => place.map(|(id, _)| id),
            _ => None,
        }
    }

    /// Returns `true` for a first acquire of a lease, as opposed to a re-entry.
    #[must_use]
    pub fn is_new(self) -> bool {
        matches!(self, Self::Take { .. } | Self::Permit { .. })
    }

    /// Returns `true` if it sets the depth of a hold. At most one such request may be in flight per lease.
    #[must_use]
    pub fn changes_depth(self) -> bool {
        matches!(self, Self::Keep { .. } | Self::Release { depth_left: 1.., .. })
    }

    /// Returns `true` for an acquire or a re-entry.
    #[must_use]
    pub fn is_acquire(self) -> bool {
        self.is_new() || matches!(self, Self::Keep { .. })
    }

    /// Returns the event of an answer that never arrived.
    #[must_use]
    pub fn unknown(self, sent: Moment) -> Event {
        match self {
            Self::Take { lease, .. } | Self::Keep { lease, .. } | Self::Permit { lease, .. } => {
                Event::Acquired { lease, outcome: Err(Failure::UNKNOWN) }
            }
            Self::Renew { lease, .. } => Event::Renewed { lease, sent, outcome: Err(Failure::UNKNOWN) },
            Self::Release { lease, depth_left } => {
                Event::Released { lease, depth_left, outcome: Err(Failure::UNKNOWN) }
            }
            Self::Watch => Event::Watched(WatchAnswer::Failed),
            Self::Unwatch => Event::Unwatched(WatchAnswer::Failed),
        }
    }

    /// Returns the event of this answer, given at `now` by the server's clock.
    #[must_use]
    pub fn answered(self, sent: Moment, now: UtcTime, answer: Answer) -> Event {
        match (self, answer) {
            (Self::Watch, _) => Event::Watched(WatchAnswer::Acknowledged),
            (Self::Unwatch, _) => Event::Unwatched(WatchAnswer::Acknowledged),
            (Self::Take { lease, .. } | Self::Keep { lease, .. } | Self::Permit { lease, .. }, _) => {
                let outcome = match answer {
                    Answer::Granted { first, last } => Acquired::Granted { first, last },
                    Answer::Busy { remaining } => Acquired::Busy { remaining: Some(remaining) },
                    Answer::Queued { remaining } => Acquired::Queued { remaining },
                    Answer::Reentered => Acquired::Reentered,
                    Answer::Late => Acquired::Late,
                    _ => Acquired::Gone,
                };
                Event::Acquired { lease, outcome: Ok(Reply::new(now, outcome)) }
            }
            (Self::Renew { lease, .. }, _) => {
                let outcome = match answer {
                    Answer::Renewed => Renewed::Renewed,
                    Answer::Late => Renewed::Late,
                    _ => Renewed::Gone,
                };
                Event::Renewed { lease, sent, outcome: Ok(Reply::new(now, outcome)) }
            }
            (Self::Release { lease, depth_left }, _) => {
                let outcome = match answer {
                    Answer::Released { listeners } => Released::Released { listeners: Some(listeners) },
                    Answer::Kept => Released::Kept,
                    Answer::Gone { held_by_other } => Released::Gone { held_by_other },
                    _ => Released::Gone { held_by_other: false },
                };
                Event::Released { lease, depth_left, outcome: Ok(Reply::new(now, outcome)) }
            }
        }
    }
}

/// The answer of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Answer {
    Granted {
        first: FencingToken,
        last: FencingToken,
    },
    Busy {
        remaining: Duration,
    },
    Queued {
        remaining: Option<Duration>,
    },
    Reentered,
    Late,
    Renewed,
    Gone {
        held_by_other: bool,
    },
    Released {
        listeners: u32,
    },
    Kept,
    /// The answer to a subscription.
    Done,
}

/// A message in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    /// The process that sent it or receives it.
    pub process: usize,
    /// `true` if it does not arrive before time advances.
    pub slow: bool,
    /// Its content.
    pub body: Body,
}

/// The content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Body {
    /// A request to the store.
    Request {
        /// The request.
        ask: Ask,
        /// The time at which it was sent, by the clock of the process.
        sent: Moment,
        /// `true` if no answer will arrive.
        mute: bool,
    },
    /// A reply of the store.
    Reply {
        /// The request.
        ask: Ask,
        /// The time at which it was sent, by the clock of the process.
        sent: Moment,
        /// The answer.
        answer: Answer,
        /// The time of the answer, by the clock of the store.
        at: UtcTime,
        /// The number of the store's data losses by then.
        epoch: u8,
    },
    /// The lock may be free.
    Wake,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// The application of this process starts the next acquire of its script.
    Enter(usize),
    /// The waiter of this process at this position in its script is dropped.
    Leave(usize, usize),
    /// A guard of this process's hold at this position is dropped or explicitly released.
    Drop(usize, usize),
    /// The weight of this process's permit at this position is lowered to 1.
    Lower(usize, usize),
    /// The store executes a request.
    Execute(Message),
    /// A process receives a reply or a wake-up.
    Deliver(Message),
    /// A call of this process times out.
    TimeOut(usize),
    /// The timer of this process fires.
    Tick(usize),
    /// Time advances to the next moment at which something can happen.
    Advance,
    /// A message is lost.
    Lose(Message),
    /// A message takes longer than the others.
    Delay(Message),
    /// A request is executed twice.
    Duplicate(Message),
    /// The wall clock of this process jumps.
    Suspect(usize),
    /// This process shuts down.
    Close(usize),
    /// This process ends without a word.
    Die(usize),
    /// The process is copied with all its state; only random numbers that it has not drawn yet differ.
    Copy(usize),
    /// The process is suspended. Its clock continues.
    Pause(usize),
    /// It is resumed.
    Resume(usize),
    /// The server writes a dump.
    Save,
    /// The server restarts without data.
    Restart,
    /// The server restarts from its dump.
    Restore,
    /// The server loses the lease.
    Evict,
}
