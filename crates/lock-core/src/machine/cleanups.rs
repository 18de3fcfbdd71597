//! Cleanup of abandoned lease ids: each is released in the store until no lease with the id can be left.
//!
//! Sending the release once is not enough: an acquire whose outcome is unknown may be executed after it and leave an
//! orphaned lease. Stamping the acquire with `not_after` is not enough either: the release may overtake it within that
//! time. Together they are sufficient: the release is sent immediately, and repeated until it was executed at a server
//! time past the largest `not_after` that was sent for the id.

use super::{
    backoff,
    command::{ReleaseOutcome, Unconfirmed},
    context::Ctx,
    event::Failure,
    fairness::Others,
    outstanding::Outstanding,
    replies::ReleaseReplies,
    state::{LeaseCleanup, Machine},
};
use crate::{
    backend::{Applied, NotifyWaiters, Released, Reply},
    ids::LeaseNumber,
    time::Moment,
};
use std::time::Duration;

/// The maximum number of undos for one name that the store has not executed yet. A caller that retries while the store
/// fails with unknown outcomes would otherwise add one with each attempt.
pub(crate) const MAX_OPEN_UNDOS: usize = 16;
/// The maximum number of undos for one name. An executed undo stays until no attempt can be applied any more, which
/// takes an operation timeout.
const MAX_UNDOS: usize = 1_024;

impl LeaseCleanup {
    pub(super) fn new(lease: LeaseNumber, outstanding: Outstanding) -> Self {
        Self {
            lease,
            outstanding,
            replies: ReleaseReplies::default(),
            in_flight: false,
            next_at: Moment::START,
            kept_until: Moment::START,
            failures: 0,
            in_doubt: false,
            left_before: None,
            unanswered: true,
            executed: false,
        }
    }

    /// Sets the replies and the deadline of a hold that ended in time.
    pub(super) fn in_time(self, deadline: Moment, replies: ReleaseReplies) -> Self {
        Self { left_before: Some(deadline), replies, ..self }
    }

    /// Delays the release until this time. The store keeps the lease until then.
    pub(super) fn not_before(self, kept_until: Moment) -> Self {
        Self { kept_until, ..self }
    }

    /// Returns `true` if the first release has been unanswered for the operation timeout divided by `part`.
    pub(super) fn is_silent(&self, now: Moment, part: u32) -> bool {
        self.unanswered && self.in_flight && now.since(self.next_at) >= self.outstanding.timeout / part
    }

    /// Returns how the release notifies waiters. If the hold ended in time, the lease is almost certainly there, and the
    /// cheapest way will do. If attempts with an unknown outcome are left, the exact time of the release is needed. If
    /// the store refused the release, the lock is still taken, and a repeat wakes nobody unless it frees the lock.
    fn notify(&self) -> NotifyWaiters {
        let is_refused = self.failures > 0 && !self.in_doubt;
        match self.left_before.is_some() && self.outstanding.not_after.is_none() && !is_refused {
            true => NotifyWaiters::EvenIfGone,
            false => NotifyWaiters::Yes,
        }
    }

    pub(super) fn wake_at(&self) -> Moment {
        let next = if self.in_flight { Moment::NEVER } else { self.next_at };
        next.min(self.outstanding.over_at).min(self.replies.answer_by())
    }
}

impl Machine {
    /// Starts the cleanup. From here on, the id is never acquired again.
    pub(super) fn retire(&mut self, s: &mut Ctx<'_>, mut cleanup: LeaseCleanup) {
        cleanup.next_at = s.now.max(cleanup.kept_until);
        self.cleanups.push(cleanup);
        self.release_cleanups(s);
    }

    /// Returns `true` if the first release of an abandoned lease has not been answered yet.
    pub(super) fn is_releasing(&self) -> bool {
        self.cleanups.iter().any(|cleanup| cleanup.unanswered)
    }

    /// Returns `true` if the lock is still taken only because of its minimum hold.
    pub(super) fn is_kept(&self, now: Moment) -> bool {
        let ended = self.hold.as_ref().is_some_and(|hold| hold.ended && now < hold.kept_until);
        ended || self.cleanups.iter().any(|cleanup| now < cleanup.kept_until)
    }

    /// Leaves the leases that are kept for their minimum hold to expire by themselves.
    pub(super) fn leave_kept(&mut self, now: Moment) {
        self.cleanups.retain(|cleanup| now >= cleanup.kept_until);
    }

    /// Returns `true` if so much is being undone that no further acquire may start.
    pub(super) fn has_enough_to_undo(&self) -> bool {
        let open = self.cleanups.iter().filter(|cleanup| !cleanup.executed).count();
        open >= MAX_OPEN_UNDOS || self.cleanups.len() >= MAX_UNDOS
    }

    pub(super) fn pass_time_for_cleanups(&mut self, s: &mut Ctx<'_>) {
        for cleanup in &mut self.cleanups {
            cleanup.replies.answer_overdue(s);
            if s.now >= cleanup.outstanding.over_at {
                cleanup.replies.answer(s, Err(Unconfirmed));
            }
        }
        self.cleanups.retain(|cleanup| s.now < cleanup.outstanding.over_at);
    }

    pub(super) fn release_cleanups(&mut self, s: &mut Ctx<'_>) {
        for cleanup in &mut self.cleanups {
            if !cleanup.in_flight && cleanup.next_at <= s.now {
                cleanup.in_flight = true;
                s.release(cleanup.lease, 0, cleanup.notify(), cleanup.outstanding.timeout);
            }
        }
    }

    pub(super) fn on_released(
        &mut self,
        s: &mut Ctx<'_>,
        lease: LeaseNumber,
        depth_left: u32,
        outcome: Result<Reply<Released>, Failure>,
    ) {
        if depth_left > 0 {
            if self.hold.as_ref().is_some_and(|hold| hold.id.lease == lease) {
                self.on_lowered(s, outcome);
            }
            return;
        }
        let Some(at) = self.cleanups.iter().position(|cleanup| cleanup.lease == lease) else { return };
        let cleanup = &mut self.cleanups[at];
        cleanup.in_flight = false;
        cleanup.unanswered = false;
        let (executed_at, answer) = match outcome {
            Ok(Reply { now, outcome: Released::Released { listeners }, .. }) => {
                let subscribed = self.watch.is_on();
                let others = match listeners {
                    // A store that cannot push knows of no waiter in another process.
                    _ if !self.config.push => Others::Poll,
                    Some(all) => Others::Subscribed(all.saturating_sub(subscribed.into())),
                    None => Others::Unknown,
                };
                self.fairness.freed(s, others, subscribed);
                (now, Ok(ReleaseOutcome::Released))
            }
            Ok(Reply { now, outcome: Released::Gone { held_by_other }, .. }) => {
                // After the deadline, a lease that expired cannot be distinguished from one that was lost earlier.
                // After a release whose outcome is unknown, a lease that it freed cannot either.
                let over = cleanup.left_before.is_some_and(|deadline| s.now >= deadline);
                match held_by_other {
                    _ if over || cleanup.in_doubt => (now, Err(Unconfirmed)),
                    true => (now, Ok(ReleaseOutcome::HeldByOther)),
                    false => (now, Ok(ReleaseOutcome::AlreadyExpired)),
                }
            }
            Ok(Reply { outcome: Released::Kept, .. }) => return cleanup.try_again(s, Failure::UNKNOWN),
            Err(failure) => return cleanup.try_again(s, failure),
        };
        cleanup.executed = true;
        cleanup.replies.answer(s, answer);
        match cleanup.outstanding.not_after {
            Some(not_after) if executed_at <= not_after => {
                cleanup.in_doubt = true;
                cleanup.next_at = s.now + not_after.since(executed_at) + Duration::from_millis(1);
            }
            _ => {
                self.cleanups.swap_remove(at);
            }
        }
    }
}

impl LeaseCleanup {
    fn try_again(&mut self, s: &mut Ctx<'_>, failure: Failure) {
        self.in_doubt |= failure.applied == Applied::Unknown;
        self.failures += 1;
        self.next_at = s.now + backoff::back_off(s, self.failures, self.outstanding.timeout);
        if !failure.retryable {
            self.replies.answer(s, Err(Unconfirmed));
        }
    }
}
