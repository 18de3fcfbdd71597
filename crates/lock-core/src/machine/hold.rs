//! The current hold: how its guards are released, and how it is lost.

use super::{
    command::{Command, Grant, HoldEnd, LostReason, Notice, Refusal, ReleaseOutcome, Unconfirmed},
    context::Ctx,
    event::{Entry, HoldId, OwnerId, Ticket},
    outstanding::{Outstanding, max_hold_at},
    state::{Chain, Depth, Hold, LeaseCleanup, LocalWait, LostHold, Machine, Renewal},
};
use crate::{ids::FencingToken, time::Moment};

impl Hold {
    pub(super) fn new(
        grant: Grant,
        last_token: FencingToken,
        front: &Entry,
        (sent, granted): (Moment, Moment),
        outstanding: Outstanding,
    ) -> Self {
        let terms = front.terms.clone();
        let mut hold = Self {
            id: grant.hold,
            owner: front.owner,
            last_token,
            deadline: grant.deadline,
            guards: 1,
            depth: Depth::one(),
            renewal: Renewal::after(sent, &terms),
            outstanding,
            ended: false,
            max_hold_at: grant.max_hold_at,
            kept_until: granted + terms.min_hold,
            claim_by: Moment::NEVER,
            local_wait: LocalWait::None,
            dropped: false,
            chain: Chain::begin(granted),
            terms,
        };
        hold.begin(front.owner, sent, granted);
        hold
    }

    /// Starts an owner's hold with its first guard: everything that counts from a grant begins here.
    pub(super) fn begin(&mut self, owner: OwnerId, sent: Moment, granted: Moment) {
        self.owner = owner;
        self.guards = 1;
        self.depth = Depth::one();
        self.max_hold_at = max_hold_at(sent, &self.terms);
        self.claim_by = granted + self.terms.lease / 2;
        self.local_wait = LocalWait::None;
    }

    /// Reports, once, that the hold has ended in this process, and answers the guard that was dropped last.
    pub(super) fn end(&mut self, s: &mut Ctx<'_>, how: HoldEnd, dropped: ReleaseOutcome) {
        s.emit(Command::Ended { hold: self.id, how });
        if std::mem::take(&mut self.dropped) {
            s.emit(Command::ReleaseAnswered { ticket: None, answer: Ok(dropped) });
        }
    }

    /// Returns `true` once the time for taking the first guard has passed. From then on, each renewal checks that the
    /// guards have been taken; see [`is_unclaimed`](Self::is_unclaimed).
    pub(super) fn is_claim_checked(&self) -> bool {
        self.claim_by == Moment::NEVER
    }

    /// Returns `true` if every guard was granted at least half a lease ago and none was taken: the futures that
    /// acquired them are not polled. If it were renewed, such a hold would block the lock for the whole fleet.
    pub(super) fn is_unclaimed(&self, s: &mut Ctx<'_>) -> bool {
        self.guards > 0 && s.env.unclaimed(self.id, s.now - self.terms.lease / 2) >= self.guards
    }

    /// Returns the reason for a loss due to time: the limit that is reached first.
    fn ends_by_time(&self) -> LostReason {
        if self.max_hold_at <= self.deadline { LostReason::MaxHold } else { LostReason::Expired }
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
            self.renewal.next_at(),
            local_wait,
            self.depth.next_at(self, has_reentrants),
            self.depth.replies.answer_by(),
        ];
        parts.into_iter().min()
    }
}

impl Machine {
    pub(super) fn pass_time_for_hold(&mut self, s: &mut Ctx<'_>) {
        let Some(hold) = &mut self.hold else { return };
        hold.depth.replies.answer_overdue(s);
        if s.now >= hold.deadline.min(hold.max_hold_at) {
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
        let left = hold.guards + self.queue.entrant_count();
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
    pub(super) fn end_hold(&mut self, s: &mut Ctx<'_>) {
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
            if hold.chain.is_used() && self.queue.has_line() {
                self.fairness.chain_ended();
            }
        }
        if let Some(hold) = self.hold.take_if(|hold| !hold.depth.is_in_flight()) {
            let cleanup = LeaseCleanup::new(hold.id.lease, hold.outstanding).not_before(hold.kept_until);
            self.retire(s, cleanup.in_time(hold.deadline, hold.depth.replies));
        }
    }

    /// Ends a hold that still has guards. It is also released in the store: renewals may have been applied while
    /// their replies were lost, and an abandoned lease should not keep others waiting.
    pub(super) fn lose(&mut self, s: &mut Ctx<'_>, reason: LostReason) {
        let Some(mut hold) = self.hold.take() else { return };
        if !hold.ended {
            hold.end(s, HoldEnd::Lost(reason), ReleaseOutcome::AlreadyExpired);
            for waiter in self.queue.drain_entrants() {
                s.emit(Command::Refuse { waiter, refusal: Refusal::Lost });
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
            self.retire(s, LeaseCleanup::new(hold.id.lease, hold.outstanding).not_before(kept_until));
        }
    }

    /// Reports a waiter that has waited longer than a lease for a hold in its own process: it may be waiting for
    /// itself.
    pub(super) fn notice_local_wait(&mut self, s: &mut Ctx<'_>) {
        let Some(hold) = self.hold.as_mut().filter(|hold| !hold.ended) else { return };
        hold.local_wait = match hold.local_wait {
            LocalWait::Since(since) if self.queue.has_line() && s.now >= since + hold.terms.lease => {
                let waited = s.now.since(since);
                s.emit(Command::Notice(Notice::SelfDeadlock { token: hold.id.token, waited }));
                LocalWait::Noticed
            }
            LocalWait::None if self.queue.has_line() => LocalWait::Since(s.now),
            LocalWait::Since(_) if !self.queue.has_line() => LocalWait::None,
            as_before => as_before,
        };
    }
}
