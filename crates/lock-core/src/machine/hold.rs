//! The hold: how it begins and ends, how it is renewed, how it passes to the next waiter of this process, and how the
//! store learns the number of its guards.

use super::{
    Depth, DepthChange, Hold, LocalWait, LostHold, Machine, Renewal,
    cleanup::{LeaseCleanup, Outstanding, ReleaseReplies},
    command::{
        Command, Ctx, Grant, GrantSource, HoldEnd, LostReason, MAX_CONSECUTIVE_LATE, Notice, Refusal,
        ReleaseOutcome, RenewalOutcome, Unconfirmed,
    },
    event::{Entry, Failure, HoldId, Join, OwnerId, Ticket, WaitPolicy, WaiterId},
    queue::Queue,
};
use crate::{
    backend::{AcquireMode, Acquired, Applied, NotifyWaiters, Released, Renewed, Reply},
    ids::{FencingToken, LeaseNumber},
    options::{Keep, TermValues, Terms},
    time::Moment,
};
use std::time::Duration;

/// A renewal that is due within its interval divided by this may be sent with those of other locks.
const EARLY_PART: u32 = 4;
/// The number of tokens that an acquire reserves. A store keeps the counter at most 1 ms, 1,000 tokens, ahead of its
/// clock.
const RESERVE: u32 = 256;
/// The shortest lease that a request can carry. An expiry never decreases, so such a request extends no lease.
const NO_LONGER: Duration = Duration::from_millis(1);

impl Hold {
    pub(super) fn new(
        id: HoldId,
        last_token: FencingToken,
        front: &Entry,
        sent: Moment,
        granted: Moment,
        outstanding: Outstanding,
    ) -> Self {
        let terms = front.terms.clone();
        let next_at = renewal_at(sent, &terms);
        let mut hold = Self {
            id,
            owner: front.owner,
            last_token,
            deadline: deadline(sent, &terms),
            guards: 1,
            depth: Depth::one(),
            renewal: Renewal { next_at, in_flight: 0, failures: 0, suspect: false },
            outstanding,
            ended: false,
            max_hold_at: Moment::NEVER,
            kept_until: granted + terms.min_hold,
            claim_by: Moment::NEVER,
            local_wait: LocalWait::None,
            dropped: false,
            lease_granted_at: granted,
            is_handed_on: false,
            terms,
        };
        hold.begin(front.owner, sent, granted);
        hold
    }

    /// Starts an owner's hold with its first guard: everything that counts from a grant begins here.
    fn begin(&mut self, owner: OwnerId, sent: Moment, granted: Moment) {
        self.owner = owner;
        self.guards = 1;
        self.depth = Depth::one();
        self.max_hold_at = max_hold_at(sent, &self.terms);
        self.claim_by = granted + self.terms.lease / 2;
        self.local_wait = LocalWait::None;
    }

    /// Passes the same lease to the next owner, with the next token. Its deadline and its renewals continue.
    fn pass_to(&mut self, front: &Entry, now: Moment) -> Grant {
        self.id.token = self.id.token.next();
        self.is_handed_on = true;
        self.begin(front.owner, now, now);
        self.grant(GrantSource::HandOff)
    }

    /// Returns the grant of the newest guard.
    pub(super) fn grant(&self, by: GrantSource) -> Grant {
        let Self { id: hold, owner, deadline, max_hold_at, guards: depth, .. } = *self;
        Grant { hold, owner, deadline, max_hold_at, depth, by }
    }

    /// Reports, once, that the hold has ended in this process, and answers the guard that was dropped last.
    fn end(&mut self, s: &mut Ctx<'_>, how: HoldEnd, dropped: ReleaseOutcome) {
        s.emit(Command::Ended { hold: self.id, how });
        if std::mem::take(&mut self.dropped) {
            s.emit(Command::ReleaseAnswered { ticket: None, answer: Ok(dropped) });
        }
    }

    /// Returns `true` once the time for taking the first guard has passed. From then on, each renewal checks that the
    /// guards have been taken; see [`is_unclaimed`](Self::is_unclaimed).
    fn is_claim_checked(&self) -> bool {
        self.claim_by == Moment::NEVER
    }

    /// Returns `true` if every guard was granted at least half a lease ago and none was taken: the futures that
    /// acquired them are not polled. If it were renewed, such a hold would block the lock for the whole fleet.
    fn is_unclaimed(&self, s: &mut Ctx<'_>) -> bool {
        self.guards > 0 && s.env.unclaimed(self.id, s.now - self.terms.lease / 2) >= self.guards
    }

    /// Returns `true` if the store is known to keep the lease for longer than a request takes, with a depth of one, and
    /// for no longer than a fresh grant. An attempt or operation with an unknown outcome, a suspicion, a fixed lease or
    /// a minimum hold rules out a hand-off.
    fn is_certain(&self, now: Moment) -> bool {
        self.depth.is_stored_as_one()
            && !self.renewal.suspect
            && self.outstanding.not_after.is_none()
            && self.terms.keep != Keep::Fixed
            && self.terms.min_hold.is_zero()
            && !self.outstanding.outlasts(now, &self.terms)
            && now + self.terms.operation_timeout < self.deadline
    }

    /// Returns the reason for a loss due to time: the limit that is reached first.
    fn ends_by_time(&self) -> LostReason {
        if self.max_hold_at <= self.deadline { LostReason::MaxHold } else { LostReason::Expired }
    }

    /// Returns the end of the hold unless it is renewed.
    pub(super) fn ends_at(&self) -> Moment {
        self.deadline.min(self.max_hold_at)
    }

    pub(super) fn wake_at(&self, has_reentrants: bool) -> Option<Moment> {
        if self.ended {
            return Some(self.deadline.min(self.depth.replies.answer_by()));
        }
        let local_wait = match self.local_wait {
            LocalWait::Since(at) => at + self.terms.lease,
            LocalWait::None | LocalWait::Noticed => Moment::NEVER,
        };
        let parts = [
            self.deadline,
            self.max_hold_at,
            self.claim_by,
            self.renewal.next_at,
            local_wait,
            self.depth.next_at(self.guards, has_reentrants),
            self.depth.replies.answer_by(),
        ];
        parts.into_iter().min()
    }
}

/// Releases and losses.
impl Machine {
    pub(super) fn pass_time_for_hold(&mut self, s: &mut Ctx<'_>) {
        let Some(hold) = &mut self.hold else { return };
        hold.depth.replies.answer_overdue(s);
        if s.now >= hold.ends_at() {
            let reason = hold.ends_by_time();
            return self.lose(s, reason);
        }
        if s.now >= hold.claim_by {
            hold.claim_by = Moment::NEVER;
            if !hold.ended && !self.queue.has_reentrants() && hold.is_unclaimed(s) {
                self.lose(s, LostReason::Unclaimed);
            }
        }
    }

    pub(super) fn on_expired(&mut self, s: &mut Ctx<'_>, id: HoldId) {
        if let Some(hold) = self.hold.as_ref().filter(|hold| hold.id == id) {
            let reason = hold.ends_by_time();
            self.lose(s, reason);
        }
    }

    /// Handles the release of a guard. The hold continues while it has other guards or re-entries in progress: if it
    /// were released during a re-entry, the second guard would be granted for a lock that is gone.
    pub(super) fn on_release(&mut self, s: &mut Ctx<'_>, id: HoldId, ticket: Option<Ticket>) {
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.id == id && hold.guards > 0) else {
            self.lost_guard_released(id);
            s.emit(Command::ReleaseAnswered { ticket, answer: Ok(ReleaseOutcome::AlreadyExpired) });
            return;
        };
        hold.guards -= 1;
        let left = hold.guards + self.queue.reentrant_count();
        match (ticket, left) {
            // Regardless of an operation in flight, no release waits for more than two timeouts.
            (Some(ticket), _) => {
                hold.depth.replies.open(ticket, left, s.now + hold.terms.operation_timeout * 2);
            }
            // The hold ends in this step, which reports the result.
            (None, 0) => hold.dropped = true,
            (None, depth) => {
                let answer = Ok(ReleaseOutcome::StillHeld { depth });
                s.emit(Command::ReleaseAnswered { ticket: None, answer });
            }
        }
    }

    fn lost_guard_released(&mut self, id: HoldId) {
        if let Some(at) = self.lost_holds.iter().position(|lost_hold| lost_hold.hold == id) {
            self.lost_holds[at].guards -= 1;
            if self.lost_holds[at].guards == 0 {
                self.lost_holds.swap_remove(at);
            }
        }
    }

    /// Ends a hold without guards: in this process immediately, in the store once nothing is in flight.
    fn end_hold(&mut self, s: &mut Ctx<'_>) {
        let Some(hold) = &mut self.hold else { return };
        if !hold.ended {
            hold.ended = true;
            let outcome = match s.now < hold.kept_until {
                true => ReleaseOutcome::StillHeld { depth: 0 },
                false => ReleaseOutcome::Released,
            };
            hold.end(s, HoldEnd::Released, outcome);
            if outcome != ReleaseOutcome::Released {
                hold.depth.replies.answer(s, Ok(outcome));
            }
            if hold.is_handed_on && self.queue.has_queued() {
                self.fairness.chain_ended();
            }
        }
        if let Some(hold) = self.hold.take_if(|hold| hold.depth.change.is_none()) {
            let cleanup = LeaseCleanup::new(hold.id.lease, hold.outstanding);
            let cleanup = cleanup.in_time(hold.deadline, hold.depth.replies);
            self.retire(s, cleanup, hold.kept_until);
        }
    }

    /// Ends a hold that still has guards. It is also released in the store: renewals may have been applied while
    /// their replies were lost, and an abandoned lease should not keep others waiting.
    pub(super) fn lose(&mut self, s: &mut Ctx<'_>, reason: LostReason) {
        let Some(mut hold) = self.hold.take() else { return };
        if !hold.ended {
            hold.end(s, HoldEnd::Lost(reason), ReleaseOutcome::AlreadyExpired);
            for waiter in self.queue.drain_reentrants() {
                s.refuse(waiter, Refusal::Lost);
            }
        }
        // An owner whose guards were never taken was not protected, so it has no guards to release.
        if hold.guards > 0 && reason != LostReason::Unclaimed {
            self.lost_holds.push(LostHold { owner: hold.owner, hold: hold.id, guards: hold.guards });
        }
        // The work under a guard released before the end was protected throughout, unless the store reports otherwise.
        let answer = match reason {
            LostReason::Gone => Ok(ReleaseOutcome::AlreadyExpired),
            _ => Err(Unconfirmed),
        };
        hold.depth.replies.answer(s, answer);
        if reason != LostReason::Gone || hold.outstanding.not_after.is_some() {
            // The work under a hold that was never claimed has not begun.
            let kept_until = if reason == LostReason::Unclaimed { Moment::START } else { hold.kept_until };
            self.retire(s, LeaseCleanup::new(hold.id.lease, hold.outstanding), kept_until);
        }
    }

    /// Releases the lease of an ended hold, but not before its minimum is over. No request is sent until then, so that
    /// an outage of which the hold heard does not count against those who wait.
    fn retire(&mut self, s: &mut Ctx<'_>, cleanup: LeaseCleanup, kept_until: Moment) {
        if s.now < kept_until {
            self.queue.outage_over();
        }
        self.cleanups.retire(s, cleanup.not_before(kept_until));
    }

    /// Reports a waiter that has waited longer than a lease for a hold in its own process: it may be waiting for
    /// itself.
    pub(super) fn notice_local_wait(&mut self, s: &mut Ctx<'_>) {
        let Some(hold) = self.hold.as_mut().filter(|hold| !hold.ended) else { return };
        hold.local_wait = match hold.local_wait {
            LocalWait::Since(since) if self.queue.has_queued() && s.now >= since + hold.terms.lease => {
                let waited = s.now.since(since);
                s.emit(Command::Notice(Notice::SelfDeadlock { token: hold.id.token, waited }));
                LocalWait::Noticed
            }
            LocalWait::None if self.queue.has_queued() => LocalWait::Since(s.now),
            LocalWait::Since(_) if !self.queue.has_queued() => LocalWait::None,
            as_before => as_before,
        };
    }
}

/// Renewals. A failed renewal does not end the hold: the hold becomes suspect, and the renewal is retried quickly until
/// the deadline. If the reply to a renewal is *gone*, the hold is lost immediately. No renewal revives a lost hold.
impl Machine {
    pub(super) fn renew_if_due(&mut self, s: &mut Ctx<'_>) {
        let Some(hold) = self.hold.as_mut().filter(|hold| !hold.ended && hold.renewal.next_at <= s.now)
        else {
            return;
        };
        if hold.is_claim_checked() && !self.queue.has_reentrants() && hold.is_unclaimed(s) {
            return self.lose(s, LostReason::Unclaimed);
        }
        hold.renewal.next_at = Moment::NEVER;
        hold.renewal.in_flight += 1;
        hold.outstanding.sent(s.now, &hold.terms);
        s.renew(hold.id.lease, &hold.terms);
    }

    /// Renews the lease before anything else relies on the hold, and ends its chain of hand-offs: the renewal may
    /// precede the forced release that is suspected. A fixed lease is not renewed and keeps its end.
    ///
    /// The lease of an attempt in flight may be freed before its reply arrives.
    pub(super) fn on_suspicion(&mut self, s: &mut Ctx<'_>) {
        if let Some(attempt) = self.acquisition.as_mut().and_then(|acquisition| acquisition.attempt.as_mut())
        {
            attempt.suspect = true;
        }
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.terms.keep != Keep::Fixed) {
            hold.renewal.suspect = true;
            hold.renewal.next_at = s.now;
            hold.last_token = hold.id.token;
        }
    }

    /// Returns the time from which [`Event::RenewEarly`](super::Event::RenewEarly) renews the hold: shortly before the
    /// renewal is due. A retry keeps its back-off.
    #[must_use]
    pub fn renewable_from(&self) -> Option<Moment> {
        let hold = self.current_hold()?;
        match hold.terms.keep {
            Keep::Renewed { every } if !hold.renewal.suspect && hold.renewal.next_at != Moment::NEVER => {
                Some(hold.renewal.next_at - every / EARLY_PART)
            }
            Keep::Renewed { .. } | Keep::Fixed => None,
        }
    }

    pub(super) fn renew_early(&mut self, s: &mut Ctx<'_>) {
        if self.renewable_from().is_some_and(|from| from <= s.now)
            && let Some(hold) = &mut self.hold
        {
            hold.renewal.next_at = s.now;
        }
    }

    pub(super) fn on_renewed(
        &mut self,
        s: &mut Ctx<'_>,
        lease: LeaseNumber,
        sent: Moment,
        outcome: Result<Reply<Renewed>, Failure>,
    ) {
        let outcome = match outcome.map(|reply| reply.outcome) {
            Ok(Renewed::Renewed) => RenewalOutcome::Renewed,
            Ok(Renewed::Gone) => RenewalOutcome::Gone,
            // Includes *late* replies: the estimate of the server's clock was wrong, or the transport was slow. The
            // reply contains the correct time.
            Ok(Renewed::Late) | Err(_) => RenewalOutcome::Failed,
        };
        self.apply_renewal(s, lease, sent, outcome);
        let hold = self.hold.as_ref().filter(|hold| hold.id.lease == lease && !hold.ended);
        let remaining = hold.map_or(Duration::ZERO, |hold| hold.ends_at().since(s.now));
        s.emit(Command::Notice(Notice::Renewal { outcome, took: s.now.since(sent), remaining }));
    }

    fn apply_renewal(&mut self, s: &mut Ctx<'_>, lease: LeaseNumber, sent: Moment, outcome: RenewalOutcome) {
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.id.lease == lease) else { return };
        let renewal = &mut hold.renewal;
        renewal.in_flight = renewal.in_flight.saturating_sub(1);
        match outcome {
            RenewalOutcome::Renewed => {
                renewal.failures = 0;
                // A renewal sent before a suspicion proves nothing about the time after it.
                renewal.suspect &= renewal.in_flight > 0;
                // A suspicion does not wait for a renewal in flight. The reply to the last one schedules the next.
                if renewal.in_flight == 0 {
                    renewal.next_at = renewal_at(sent, &hold.terms);
                }
                hold.deadline = hold.deadline.max(deadline(sent, &hold.terms));
                if !hold.ended {
                    s.emit(Command::Extended { hold: hold.id, deadline: hold.deadline });
                }
            }
            RenewalOutcome::Gone => self.lose(s, LostReason::Gone),
            RenewalOutcome::Failed => {
                renewal.failures += 1;
                renewal.suspect = true;
                let failures = renewal.failures;
                renewal.next_at = renewal.next_at.min(s.retry_at(failures, hold.terms.operation_timeout));
                let (token, remaining) = (hold.id.token, hold.deadline.since(s.now));
                s.emit(Command::Notice(Notice::RenewalFailed { token, remaining, failures }));
            }
        }
    }
}

/// Hand-off: when the last guard is released, the lease passes to the next waiter in this process without a request to
/// the store.
///
/// This is lock cohorting (Dice, Marathe, Shavit: *Lock Cohorting*, PPoPP 2012). The store's lock belongs to the
/// cohort, here a process, whose members hand it over to each other as often as a budget allows. Then it returns to
/// the store and to the other processes. Each holder has its own fencing token, from the range that the acquire
/// reserved: the store's counter was raised to the end of the range before its first token was issued.
impl Machine {
    /// Returns the number of further tokens that an acquire with these terms requests: none if there is no waiter
    /// behind the front.
    pub(super) fn tokens_to_reserve(&self, terms: &Terms) -> u32 {
        let is_off =
            terms.hand_off.within.is_zero() || terms.keep == Keep::Fixed || !terms.min_hold.is_zero();
        if is_off || self.queue.queued_len() < 2 { 0 } else { RESERVE.min(terms.hand_off.passes) }
    }

    /// Passes the lease to the front waiter, if there is one and the budget allows it. Returns `false` if the lease has
    /// to be released in the store. Called when no guard is left.
    fn hand_off(&mut self, s: &mut Ctx<'_>) -> bool {
        let (Some(hold), Some(front)) = (&mut self.hold, self.queue.front()) else { return false };
        let budget = hold.terms.hand_off;
        let is_within_budget = hold.id.token < hold.last_token
            && self.fairness.passes() < budget.passes
            && s.now.since(hold.lease_granted_at) < budget.within;
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

    /// Lowers the weight of a permit to 1. Its guard counts once in any case, so this only makes the store forget the
    /// weight that it has.
    pub(super) fn on_downgrade(&mut self, id: HoldId) {
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.id == id) {
            hold.depth.stored = None;
        }
    }

    /// Ends the range of tokens with that of this hold, so that its lease is not handed on.
    pub(super) fn on_pin(&mut self, id: HoldId) {
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.id == id) {
            hold.last_token = id.token;
        }
    }

    /// Grants the lock to the front waiter. Waiters with the same owner re-enter with it; they would otherwise wait for
    /// themselves.
    pub(super) fn grant_front(&mut self, s: &mut Ctx<'_>, grant: Grant) {
        let Some(waiter) = self.queue.front().map(|front| front.waiter) else { return };
        let HoldId { token, .. } = grant.hold;
        self.queue.remove(waiter);
        s.emit(Command::Grant { waiter, grant });
        for waiter in self.queue.reenter_siblings(grant.owner, token) {
            s.refuse(waiter, Refusal::BelowFloor(token));
        }
    }
}

/// Re-entry: the number of guards that the hold has, and the number that the store keeps.
///
/// At most one operation that changes the depth is in flight, and the next absolute depth is computed only after its
/// reply. Guards that are added or released in the meantime wait for that reply; then one operation updates the store.
impl Machine {
    /// Updates the depth in the store to the number of guards and pending re-entries, or ends the hold if there are
    /// none.
    pub(super) fn settle_depth(&mut self, s: &mut Ctx<'_>) {
        let Some(hold) = &mut self.hold else { return };
        let reentrants = self.queue.reentrant_count();
        let wanted = hold.guards + reentrants;
        if wanted == 0 || hold.ended {
            return match self.hand_off(s) {
                // Waiters of the next owner may re-enter immediately.
                true => self.settle_depth(s),
                false => self.end_hold(s),
            };
        }
        if hold.depth.change.is_some() {
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
            // A lower weight leaves room for others.
            let notify = if self.config.pool { NotifyWaiters::Yes } else { NotifyWaiters::No };
            s.release(lease, wanted, notify, timeout);
        } else {
            let terms = reentry_terms(&hold.terms, &self.queue);
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
                return self.grant_reentrants(s, waiters);
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
            s.refuse(waiter, Refusal::Failed(failure.applied));
        }
    }

    /// Grants re-entries. A waiter that has left is not counted; the next operation lowers the depth again.
    fn grant_reentrants(&mut self, s: &mut Ctx<'_>, waiters: Vec<WaiterId>) {
        let Some(hold) = &mut self.hold else { return };
        for waiter in waiters {
            if self.queue.remove(waiter).is_some() {
                hold.guards += 1;
                s.emit(Command::Grant { waiter, grant: hold.grant(GrantSource::Reentry) });
            }
        }
    }

    pub(super) fn on_lowered(
        &mut self,
        s: &mut Ctx<'_>,
        lease: LeaseNumber,
        outcome: Result<Reply<Released>, Failure>,
    ) {
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.id.lease == lease) else { return };
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

impl Depth {
    fn one() -> Self {
        Self {
            stored: Some(1),
            change: None,
            replies: ReleaseReplies::default(),
            failures: 0,
            lates: 0,
            retry_at: Moment::START,
        }
    }

    /// Returns `true` if no operation is in flight and the store is known to keep one guard.
    fn is_stored_as_one(&self) -> bool {
        self.change.is_none() && self.stored == Some(1)
    }

    fn next_at(&self, guards: u32, has_reentrants: bool) -> Moment {
        let settled = self.stored == Some(guards) && !has_reentrants;
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
        self.retry_at = s.retry_at(self.failures, timeout);
    }
}

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

/// Returns the time at which a lease that was last extended at `sent` is renewed.
fn renewal_at(sent: Moment, terms: &Terms) -> Moment {
    match terms.keep {
        Keep::Renewed { every } => sent + every,
        Keep::Fixed => Moment::NEVER,
    }
}

/// Returns the terms of a re-entry with the longest of the requested leases: it may extend the hold, never shorten it.
fn reentry_terms(held: &Terms, queue: &Queue) -> Terms {
    let asked = queue.reentrants().map(|entry| &entry.terms);
    let longest = asked.chain([held]).max_by_key(|terms| terms.lease).unwrap_or(held);
    let lease = match held.keep {
        // A fixed lease keeps its end, unless a longer one or an extension is requested.
        Keep::Fixed => {
            let extends = |entry: &&Entry| {
                matches!(entry.join, Some(Join::Extend(_))) || entry.terms.lease > held.lease
            };
            let asked = queue.reentrants().filter(extends).map(|entry| entry.terms.lease);
            asked.max().unwrap_or(NO_LONGER)
        }
        Keep::Renewed { .. } => longest.lease,
    };
    let operation_timeout = held.operation_timeout;
    match (longest.lease, longest.operation_timeout) == (lease, operation_timeout) {
        true => longest.clone(),
        false => Terms::from(TermValues { lease, operation_timeout, ..**longest }),
    }
}
