//! Local hand-off: when the last guard is released, the lease passes to the next waiter in this process without a
//! request to the store.
//!
//! This is lock cohorting (Dice, Marathe, Shavit: *Lock Cohorting*, PPoPP 2012). The store's lock belongs to the
//! cohort, here a process, whose members hand it over to each other as often as a budget allows. Then it returns to
//! the store and to the other processes. Each holder has its own fencing token, from the range that the acquire
//! reserved: the store's counter was raised to the end of the range before its first token was issued.

use super::{
    command::{Command, Grant, GrantSource, HoldEnd, Refusal, ReleaseOutcome},
    context::Ctx,
    event::{Entry, HoldId},
    state::{Chain, Hold, Machine},
};
use crate::{
    options::{Keep, Terms},
    time::Moment,
};

/// The number of tokens that an acquire reserves. A store keeps the counter at most 1 ms, 1,000 tokens, ahead of its
/// clock.
const RESERVE: u32 = 256;

impl Chain {
    pub(super) fn begin(granted_at: Moment) -> Self {
        Self { granted_at, is_used: false }
    }

    /// Returns `true` if the lease was handed over at least once.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }
}

impl Hold {
    /// Returns `true` if the store is known to keep the lease for longer than a request takes, with a depth of one, and
    /// for no longer than a fresh grant. An attempt or operation with an unknown outcome, a suspicion, a fixed lease or a
    /// minimum hold rules out a hand-off.
    fn is_certain(&self, now: Moment) -> bool {
        self.depth.is_stored_as_one()
            && !self.renewal.is_suspect()
            && self.outstanding.not_after.is_none()
            && self.terms.keep != Keep::Fixed
            && self.terms.min_hold.is_zero()
            && !self.outstanding.outlasts(now, &self.terms)
            && now + self.terms.operation_timeout < self.deadline
    }

    /// Ends the chain: this lease is not handed off any more.
    pub(super) fn end_chain(&mut self) {
        self.last_token = self.id.token;
    }

    /// Passes the same lease to the next owner, with the next token. Its deadline and its renewals continue.
    fn pass_to(&mut self, front: &Entry, now: Moment) -> Grant {
        self.id.token = self.id.token.next();
        self.chain.is_used = true;
        self.begin(front.owner, now, now);
        Grant {
            hold: self.id,
            owner: self.owner,
            deadline: self.deadline,
            max_hold_at: self.max_hold_at,
            depth: 1,
            by: GrantSource::HandOff,
        }
    }
}

impl Machine {
    /// Returns the number of further tokens that an acquire with these terms requests: none if there is no waiter
    /// behind the front.
    pub(super) fn tokens_to_reserve(&self, terms: &Terms) -> u32 {
        let is_off =
            terms.hand_off.within.is_zero() || terms.keep == Keep::Fixed || !terms.min_hold.is_zero();
        if is_off || self.queue.line_len() < 2 { 0 } else { RESERVE.min(terms.hand_off.passes) }
    }

    /// Passes the lease to the front waiter, if there is one and the budget allows it. Returns `false` if the lease has
    /// to be released in the store. Called when no guard is left.
    pub(super) fn hand_off(&mut self, s: &mut Ctx<'_>) -> bool {
        let (Some(hold), Some(front)) = (&mut self.hold, self.queue.front()) else { return false };
        let budget = hold.terms.hand_off;
        let is_within_budget = hold.id.token < hold.last_token
            && self.fairness.passes() < budget.passes
            && s.now.since(hold.chain.granted_at) < budget.within;
        // The terms must be equal: the deadline was computed from them, and they contain the token floor.
        if hold.ended || !is_within_budget || !hold.is_certain(s.now) || front.terms != hold.terms {
            return false;
        }
        hold.end(s, HoldEnd::Released, ReleaseOutcome::HandedOn);
        hold.depth.replies.answer(s, Ok(ReleaseOutcome::HandedOn));
        let grant = hold.pass_to(front, s.now);
        self.fairness.passed_on();
        self.grant_front(s, grant);
        true
    }

    /// Grants the lock to the front waiter. Waiters with the same owner re-enter with it; they would otherwise wait for
    /// themselves.
    pub(super) fn grant_front(&mut self, s: &mut Ctx<'_>, grant: Grant) {
        let Some(waiter) = self.queue.front().map(|front| front.waiter) else { return };
        let HoldId { token, .. } = grant.hold;
        self.queue.remove(waiter);
        s.emit(Command::Grant { waiter, grant });
        for waiter in self.queue.siblings_enter(grant.owner, token) {
            s.emit(Command::Refuse { waiter, refusal: Refusal::BelowFloor(token) });
        }
    }
}
