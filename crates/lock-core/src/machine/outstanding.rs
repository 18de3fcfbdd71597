//! The effects that a lease may have left in the store, and the time until which they last.

use crate::{
    options::Terms,
    time::{Moment, UtcTime},
};
use std::time::Duration;

/// Returns the local deadline of a lease with these terms that was requested at `sent`.
///
/// Counted from before the request was sent, never from the reply: with a slow reply, two processes could otherwise
/// consider themselves holders.
pub(super) fn deadline(sent: Moment, terms: &Terms) -> Moment {
    sent + terms.lease - terms.margin
}

/// Returns the time at which a hold with these terms ends even if it is renewed, counted from `since`.
pub(super) fn max_hold_at(since: Moment, terms: &Terms) -> Moment {
    terms.max_hold.map_or(Moment::NEVER, |most| since + most)
}

/// The effects that a lease id may have, or may yet have, in the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Outstanding {
    /// The server time until which attempts with an unknown outcome may be applied.
    pub(super) not_after: Option<UtcTime>,
    /// The time by which every such lease has expired; never decreases.
    pub(super) over_at: Moment,
    /// The timeout of an operation on the lease.
    pub(super) timeout: Duration,
}

impl Outstanding {
    /// Records that an operation that sets or extends the lease was sent.
    pub(super) fn sent(&mut self, now: Moment, terms: &Terms) {
        self.over_at = self.over_at.max(now + terms.operation_timeout + terms.lease);
        self.timeout = terms.operation_timeout;
    }

    /// Returns `true` if the lease may last longer than one that is granted now under these terms: it was extended, or
    /// re-entered with a longer lease, or such a request was sent.
    pub(super) fn outlasts(&self, now: Moment, terms: &Terms) -> bool {
        self.over_at > now + terms.operation_timeout + terms.lease
    }

    /// Records an attempt whose outcome is unknown.
    pub(super) fn unknown(&mut self, not_after: UtcTime) {
        self.not_after = self.not_after.max(Some(not_after));
    }
}
