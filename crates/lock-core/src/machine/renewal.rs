//! The renewal of a hold: when it is due, and the effect of a failure.
//!
//! A failed renewal does not end the hold: the hold becomes suspect, and the renewal is retried quickly until the
//! deadline. If the reply to a renewal is *gone*, the hold is lost immediately. No renewal revives a lost hold.

use super::{
    backoff,
    command::{Command, LostReason, Notice, RenewalOutcome},
    context::Ctx,
    event::Failure,
    outstanding::deadline,
    state::{Machine, Renewal},
};
use crate::{
    backend::{Renewed, Reply},
    ids::LeaseNumber,
    options::{Keep, Terms},
    time::Moment,
};

/// A renewal that is due within its interval divided by this may be sent with those of other locks.
const EARLY_PART: u32 = 4;

impl Renewal {
    pub(super) fn after(sent: Moment, terms: &Terms) -> Self {
        let next_at = match terms.keep {
            Keep::Renewed { every } => sent + every,
            Keep::Fixed => Moment::NEVER,
        };
        Self { next_at, in_flight: 0, failures: 0, suspect: false }
    }

    pub(super) fn next_at(&self) -> Moment {
        self.next_at
    }

    /// Returns the time from which the renewal may be sent with those of other locks. A retry keeps its back-off.
    fn may_join_from(&self, terms: &Terms) -> Option<Moment> {
        match terms.keep {
            Keep::Renewed { every } if !self.suspect && self.next_at != Moment::NEVER => {
                Some(self.next_at - every / EARLY_PART)
            }
            Keep::Renewed { .. } | Keep::Fixed => None,
        }
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.suspect
    }
}

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

    /// Renews the lease before anything else relies on the hold, and ends its chain of hand-offs: the renewal may precede
    /// the forced release that is suspected. A fixed lease is not renewed and keeps its end.
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
            hold.end_chain();
        }
    }

    /// Returns the time from which [`Event::RenewEarly`](super::Event::RenewEarly) renews the hold.
    #[must_use]
    pub fn renewable_from(&self) -> Option<Moment> {
        let hold = self.hold.as_ref().filter(|hold| !hold.ended)?;
        hold.renewal.may_join_from(&hold.terms)
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
        let outcome = outcome.map(|reply| reply.outcome);
        let outcome = match outcome {
            Ok(Renewed::Renewed) => RenewalOutcome::Renewed,
            Ok(Renewed::Gone) => RenewalOutcome::Gone,
            Ok(Renewed::Late) | Err(_) => RenewalOutcome::Failed,
        };
        self.apply_renewal(s, lease, sent, outcome);
        let remaining = self.hold.as_ref().filter(|hold| hold.id.lease == lease && !hold.ended);
        let remaining =
            remaining.map_or(Moment::START, |hold| hold.deadline.min(hold.max_hold_at)).since(s.now);
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
                renewal.next_at = Self::next_renewal(renewal, sent, &hold.terms);
                hold.deadline = hold.deadline.max(deadline(sent, &hold.terms));
                if !hold.ended {
                    s.emit(Command::Extended { hold: hold.id, deadline: hold.deadline });
                }
            }
            RenewalOutcome::Gone => self.lose(s, LostReason::Gone),
            // Includes *late* replies: the estimate of the server's clock was wrong, or the transport was slow. The
            // reply contains the correct time.
            RenewalOutcome::Failed => {
                renewal.failures += 1;
                renewal.suspect = true;
                let retry_at = s.now + backoff::back_off(s, renewal.failures, hold.terms.operation_timeout);
                renewal.next_at = renewal.next_at.min(retry_at);
                let (token, remaining) = (hold.id.token, hold.deadline.since(s.now));
                let failures = renewal.failures;
                s.emit(Command::Notice(Notice::RenewalFailed { token, remaining, failures }));
            }
        }
    }

    /// Returns the time of the next renewal. If another renewal is still in flight, because a suspicion does not wait
    /// for it, its reply schedules the next one.
    fn next_renewal(renewal: &Renewal, sent: Moment, terms: &Terms) -> Moment {
        match renewal.in_flight {
            0 => Renewal::after(sent, terms).next_at,
            _ => renewal.next_at,
        }
    }
}
