//! What a lease may have left in the store, and until when it is valid.

use crate::{
    terms::Terms,
    time::{Moment, ServerTime},
};
use std::time::Duration;

/// The lease of these terms, asked for at `sent`, is valid in this process until then.
///
/// From before the request was sent, never from the reply: a slow reply would otherwise let two processes
/// believe themselves holders.
pub(super) fn deadline(sent: Moment, terms: &Terms) -> Moment {
    sent + terms.lease - terms.margin
}

/// A hold of these terms, granted for a request of `since`, ends then although it is renewed.
pub(super) fn max_hold_at(since: Moment, terms: &Terms) -> Moment {
    terms.max_hold.map_or(Moment::NEVER, |most| since + most)
}

/// What a lease id may have left, or may yet leave, in the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Outstanding {
    /// Attempts of unknown outcome may be carried out until then by the server's clock.
    pub(super) not_after: Option<ServerTime>,
    /// Whatever was left has ended by itself then; never falls.
    pub(super) over_at: Moment,
    /// How long an operation on it may take.
    pub(super) timeout: Duration,
}

impl Outstanding {
    /// An operation was sent that sets or extends the lease.
    pub(super) fn sent(&mut self, now: Moment, terms: &Terms) {
        self.over_at = self.over_at.max(now + terms.operation_timeout + terms.lease);
        self.timeout = terms.operation_timeout;
    }

    /// Nobody knows whether an attempt was, or will be, carried out.
    pub(super) fn unknown(&mut self, not_after: ServerTime) {
        self.not_after = self.not_after.max(Some(not_after));
    }
}
