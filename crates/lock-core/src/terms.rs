//! The terms of a lease: checked options, as the state machine uses them.

use crate::{backend::Retention, token::FencingToken};
use std::{ops::Deref, sync::Arc, time::Duration};

/// A shared handle of checked options, made once for each set of them.
///
/// Entries, events, commands and requests each carry one, so a clone costs a counter instead of a copy of the values. Two
/// handles are equal if their values are; the same handle is compared by its address alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Terms(Arc<TermValues>);

/// The values that a waiter asks for. Made by [`LockOptions`](crate::LockOptions), whose documentation explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TermValues {
    /// How long the store keeps the lease without renewal; whole milliseconds.
    pub lease: Duration,
    /// Who keeps it alive.
    pub keep: Keep,
    /// How long one operation of the backend may take.
    pub operation_timeout: Duration,
    /// By how much the local deadline precedes the end of the lease.
    pub margin: Duration,
    /// How long backend failures are tolerated before a waiting acquire fails.
    pub outage_budget: Duration,
    /// The longest time between two tries of a waiter with a subscription.
    pub poll_interval: Duration,
    /// When a hold ends although the watchdog could go on.
    pub max_hold: Option<Duration>,
    /// A token that the token of the hold must exceed.
    pub token_floor: Option<FencingToken>,
    /// How long the fencing counter is kept after the grant.
    pub retention: Retention,
    /// How far a lease may be passed on within this process.
    pub hand_off: HandOffBudget,
}

impl Terms {
    /// Whether a hold of this token is one of those that were asked for.
    pub(crate) fn allow(&self, token: FencingToken) -> bool {
        self.token_floor.is_none_or(|floor| token > floor)
    }
}

impl From<TermValues> for Terms {
    fn from(values: TermValues) -> Self {
        Self(Arc::new(values))
    }
}

impl Deref for Terms {
    type Target = TermValues;
    fn deref(&self) -> &TermValues {
        &self.0
    }
}

/// How far a lease may be passed on from waiter to waiter of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandOffBudget {
    /// How many times in a row; 0 turns hand-offs off.
    pub passes: u32,
    /// For how long after the store's grant.
    pub within: Duration,
}

/// Who keeps a lease alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// The watchdog, at this interval.
    Renewed {
        /// From the sending of the last successful request to the next renewal.
        every: Duration,
    },
    /// Nobody: the hold ends with the lease.
    Fixed,
}
