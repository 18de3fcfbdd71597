//! The terms of a lease: validated options, as the state machine uses them.

use crate::{backend::Retention, token::FencingToken};
use std::{ops::Deref, sync::Arc, time::Duration};

/// A shared handle to validated options.
///
/// Entries, events, commands and requests each carry one, so that a clone only increments a counter. Two handles are
/// equal if their values are equal; identical handles are compared by address alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Terms(Arc<TermValues>);

/// The values behind [`Terms`], created by [`LockOptions`](crate::LockOptions), whose documentation explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TermValues {
    /// The time for which the store keeps the lease without renewal, in whole milliseconds.
    pub lease: Duration,
    /// The renewal of the lease.
    pub keep: Keep,
    /// The timeout of one operation of the backend.
    pub operation_timeout: Duration,
    /// The time by which the local deadline precedes the end of the lease.
    pub margin: Duration,
    /// The time for which backend failures are tolerated before a waiting acquire fails.
    pub outage_budget: Duration,
    /// The longest time between two attempts of a waiter with a subscription.
    pub poll_interval: Duration,
    /// The time after which a hold ends despite renewals.
    pub max_hold: Option<Duration>,
    /// The time after the grant for which the lock stays taken, even if it is released earlier; zero for none.
    pub min_hold: Duration,
    /// The token that the hold's token must exceed.
    pub token_floor: Option<FencingToken>,
    /// The time for which the fencing counter is kept after the grant.
    pub retention: Retention,
    /// The budget for handing over a lease within this process.
    pub hand_off: HandOffBudget,
}

impl Terms {
    /// Returns `true` if a hold's token exceeds the floor of these terms.
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

/// The budget for handing over a lease between waiters of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandOffBudget {
    /// The maximum number of consecutive hand-offs; 0 disables them.
    pub passes: u32,
    /// The time after the store's grant during which hand-offs are allowed.
    pub within: Duration,
}

/// The way in which a lease is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Renewed by the watchdog at this interval.
    Renewed {
        /// The time between sending the last successful request and the next renewal.
        every: Duration,
    },
    /// Not renewed: the hold ends with the lease.
    Fixed,
}
