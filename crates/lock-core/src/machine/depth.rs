//! The re-entrancy depth: the number of guards that the hold has, and the number that the store keeps.
//!
//! At most one operation that changes the depth is in flight, and the next absolute depth is computed only after its
//! reply. Guards that are added or released in the meantime wait for that reply; then one operation updates the store.

use super::{
    acquisition::MAX_CONSECUTIVE_LATE,
    backoff,
    command::{Command, Grant, GrantSource, LostReason, Refusal},
    context::Ctx,
    event::{Entry, Failure, Join, WaitPolicy, WaiterId},
    outstanding::deadline,
    replies::ReleaseReplies,
    state::{Depth, DepthChange, Hold, Machine},
};
use crate::{
    backend::{AcquireMode, Acquired, Applied, NotifyWaiters, Released, Reply},
    options::{Keep, TermValues, Terms},
    time::Moment,
};
use std::time::Duration;

/// The shortest lease that a request can carry. An expiry never decreases, so such a request extends no lease.
const NO_LONGER: Duration = Duration::from_millis(1);

impl Depth {
    pub(super) fn one() -> Self {
        Self {
            stored: Some(1),
            change: None,
            replies: ReleaseReplies::default(),
            failures: 0,
            lates: 0,
            retry_at: Moment::START,
        }
    }

    pub(super) fn is_in_flight(&self) -> bool {
        self.change.is_some()
    }

    /// Returns `true` if no operation is in flight and the store is known to keep one guard.
    pub(super) fn is_stored_as_one(&self) -> bool {
        self.change.is_none() && self.stored == Some(1)
    }

    pub(super) fn next_at(&self, hold: &Hold, has_reentrants: bool) -> Moment {
        let settled = self.stored == Some(hold.guards) && !has_reentrants;
        if self.change.is_some() || settled { Moment::NEVER } else { self.retry_at }
    }

    fn settle(&mut self, to: u32) {
        self.stored = Some(to);
        self.failures = 0;
        self.lates = 0;
        self.retry_at = Moment::START;
    }

    fn failed(&mut self, s: &mut Ctx<'_>, timeout: Duration) {
        self.replies.answer_inner(s);
        self.stored = None;
        self.failures += 1;
        self.retry_at = s.now + backoff::back_off(s, self.failures, timeout);
    }
}

impl Machine {
    /// Updates the depth in the store to the number of guards and pending re-entries, or ends the hold if there are
    /// none.
    pub(super) fn settle_depth(&mut self, s: &mut Ctx<'_>) {
        let Some(hold) = &mut self.hold else { return };
        let reentrants = self.queue.entrant_count();
        let wanted = hold.guards + reentrants;
        if wanted == 0 || hold.ended {
            return match self.hand_off(s) {
                // Waiters of the next owner may re-enter immediately.
                true => self.settle_depth(s),
                false => self.end_hold(s),
            };
        }
        if hold.depth.is_in_flight() {
            return;
        }
        if reentrants == 0 && hold.depth.stored == Some(wanted) {
            return hold.depth.replies.answer_inner(s);
        }
        if hold.depth.retry_at > s.now {
            return;
        }
        let lease = hold.id.lease;
        if reentrants == 0 {
            hold.depth.change = Some(DepthChange::Lower { to: wanted });
            let timeout = hold.terms.operation_timeout;
            s.release(lease, wanted, NotifyWaiters::No, timeout);
        } else {
            // The longest of the requested leases: a re-entry may extend the hold, never shorten it.
            let asked = self.queue.reentrants().map(|entry| &entry.terms);
            let longest = asked.chain([&hold.terms]).max_by_key(|terms| terms.lease).unwrap_or(&hold.terms);
            let lease_time = match hold.terms.keep {
                // A fixed lease keeps its end, unless a longer one or an extension is requested.
                Keep::Fixed => {
                    let extends = |entry: &&Entry| {
                        matches!(entry.join, Some(Join::Extend(_))) || entry.terms.lease > hold.terms.lease
                    };
                    let asked = self.queue.reentrants().filter(extends).map(|entry| entry.terms.lease);
                    asked.max().unwrap_or(NO_LONGER)
                }
                Keep::Renewed { .. } => longest.lease,
            };
            let operation_timeout = hold.terms.operation_timeout;
            let terms = match (longest.lease, longest.operation_timeout) == (lease_time, operation_timeout) {
                true => longest.clone(),
                false => Terms::from(TermValues { lease: lease_time, operation_timeout, ..**longest }),
            };
            let waiters = self.queue.reentrants().map(|entry| entry.waiter).collect();
            hold.outstanding.sent(s.now, &terms);
            s.acquire(lease, AcquireMode::Reenter { depth: wanted }, &terms);
            hold.depth.change = Some(DepthChange::Raise { to: wanted, waiters, sent: s.now, terms });
        }
    }

    pub(super) fn on_raised(&mut self, s: &mut Ctx<'_>, outcome: Result<Reply<Acquired>, Failure>) {
        let Some(hold) = &mut self.hold else { return };
        let Some(DepthChange::Raise { to, waiters, sent, terms }) = hold.depth.change.take() else { return };
        let failure = match outcome.map(|reply| reply.outcome) {
            Ok(Acquired::Reentered) => {
                hold.depth.settle(to);
                if terms.lease > NO_LONGER {
                    hold.deadline = hold.deadline.max(deadline(sent, &terms));
                }
                if !hold.ended {
                    s.emit(Command::Extended { hold: hold.id, deadline: hold.deadline });
                }
                self.backend_answered();
                return self.grant_entrants(s, waiters);
            }
            Ok(Acquired::Gone) => return self.lose(s, LostReason::Gone),
            // The estimate of the server's clock was wrong; the reply contains the correct time, and the request is
            // repeated.
            Ok(Acquired::Late) if hold.depth.lates < MAX_CONSECUTIVE_LATE => {
                hold.depth.lates += 1;
                return;
            }
            Ok(Acquired::Late) => Failure { applied: Applied::No, retryable: true },
            // Not a valid reply to a re-entry.
            Ok(_) => Failure::UNKNOWN,
            Err(failure) => failure,
        };
        hold.depth.failed(s, terms.operation_timeout);
        self.queue.outage_began(sent);
        let hopeless = |wait_policy| wait_policy == WaitPolicy::NoWait || !failure.retryable;
        let refused: Vec<_> =
            self.queue.reentrants().filter(|e| hopeless(e.wait_policy)).map(|e| e.waiter).collect();
        for waiter in refused {
            self.queue.remove(waiter);
            s.emit(Command::Refuse { waiter, refusal: Refusal::Failed(failure.applied) });
        }
    }

    /// Grants re-entries. A waiter that has left is not counted; the next operation lowers the depth again.
    fn grant_entrants(&mut self, s: &mut Ctx<'_>, waiters: Vec<WaiterId>) {
        let Some(hold) = &mut self.hold else { return };
        for waiter in waiters {
            if self.queue.take(waiter).is_some() {
                hold.guards += 1;
                let Hold { id, owner, deadline, max_hold_at, guards: depth, .. } = *hold;
                let grant = Grant { hold: id, owner, deadline, max_hold_at, depth, by: GrantSource::Reentry };
                s.emit(Command::Grant { waiter, grant });
            }
        }
    }

    pub(super) fn on_lowered(&mut self, s: &mut Ctx<'_>, outcome: Result<Reply<Released>, Failure>) {
        let Some(hold) = &mut self.hold else { return };
        let Some(DepthChange::Lower { to }) = hold.depth.change.take() else { return };
        match outcome.map(|reply| reply.outcome) {
            Ok(Released::Kept) => {
                hold.depth.settle(to);
                self.backend_answered();
            }
            Ok(Released::Gone { .. }) => self.lose(s, LostReason::Gone),
            Ok(Released::Released { .. }) | Err(_) => hold.depth.failed(s, hold.terms.operation_timeout),
        }
    }
}
