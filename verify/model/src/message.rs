//! What is in flight between processes and the store.

use lock_core::{
    FencingToken,
    backend::{Acquired, LeaseNumber, Released, Renewed, Reply},
    clock::{Moment, ServerTime},
    model::{Event, Failure, WatchAnswer},
};
use std::time::Duration;

/// A request to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Ask {
    /// A plain acquire.
    Take { lease: LeaseNumber, duration: Duration, not_after: ServerTime, reserve: u32 },
    /// A re-entry.
    Keep { lease: LeaseNumber, duration: Duration, not_after: ServerTime, depth: u32 },
    /// A renewal.
    Renew { lease: LeaseNumber, duration: Duration, not_after: ServerTime },
    /// A release.
    Release { lease: LeaseNumber, depth_left: u32 },
    /// A subscription.
    Watch,
    /// Its end.
    Unwatch,
}

impl Ask {
    /// The lease that it is about.
    #[must_use]
    pub fn lease(self) -> Option<LeaseNumber> {
        match self {
            Self::Take { lease, .. }
            | Self::Keep { lease, .. }
            | Self::Renew { lease, .. }
            | Self::Release { lease, .. } => Some(lease),
            Self::Watch | Self::Unwatch => None,
        }
    }

    /// Whether it sets the depth of a hold: of these, at most one may be in flight for each lease.
    #[must_use]
    pub fn changes_depth(self) -> bool {
        matches!(self, Self::Keep { .. } | Self::Release { depth_left: 1.., .. })
    }

    /// Whether it is an acquire or a re-entry.
    #[must_use]
    pub fn is_acquire(self) -> bool {
        matches!(self, Self::Take { .. } | Self::Keep { .. })
    }

    /// The event of an answer that never came.
    #[must_use]
    pub fn unknown(self, sent: Moment) -> Event {
        match self {
            Self::Take { lease, .. } | Self::Keep { lease, .. } => {
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

    /// The event of this answer, given at `now` by the server's clock.
    #[must_use]
    pub fn answered(self, sent: Moment, now: ServerTime, answer: Answer) -> Event {
        match (self, answer) {
            (Self::Watch, _) => Event::Watched(WatchAnswer::Acknowledged),
            (Self::Unwatch, _) => Event::Unwatched(WatchAnswer::Acknowledged),
            (Self::Take { lease, .. } | Self::Keep { lease, .. }, _) => {
                let outcome = match answer {
                    Answer::Granted { first, last } => Acquired::Granted { first, last },
                    Answer::Busy { remaining } => Acquired::Busy { remaining: Some(remaining) },
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

/// What the store answered.
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
    /// To a subscription.
    Done,
}

/// A message in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    /// The process that sent it, or that it is for.
    pub process: usize,
    /// It does not arrive before time goes on.
    pub slow: bool,
    /// What it is.
    pub body: Body,
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Body {
    /// To the store.
    Request {
        /// What is asked.
        ask: Ask,
        /// By the clock of the process.
        sent: Moment,
        /// Whether no answer will find its way back.
        mute: bool,
    },
    /// From the store.
    Reply {
        /// What was asked.
        ask: Ask,
        /// By the clock of the process.
        sent: Moment,
        /// What is answered.
        answer: Answer,
        /// When, by the clock of the store.
        at: ServerTime,
        /// How often the store had lost data then.
        epoch: u8,
    },
    /// The lock may be free.
    Wake,
}
