//! Lease ids that were given up: released in the store until nothing of them can be left.
//!
//! Sending the release once is not enough: an acquire of unknown outcome may be carried out after it, and leave
//! an orphan. Stamping the acquire with `not_after` is not enough either: the release may overtake it inside
//! that time. Both together are: release at once, and again until one was carried out at a server time past the
//! largest `not_after` that was sent for the id.

use super::{
    backoff,
    command::{Command, ReleaseOutcome, Unconfirmed},
    context::Ctx,
    event::Failure,
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

/// Undos of one name that the store has not carried out even once. A caller that tries again and again while the store fails
/// with unknown outcomes would otherwise leave one more with each try.
pub(crate) const MAX_OPEN_UNDOS: usize = 16;
/// Undos of one name in all. Those that were carried out stay until no attempt can be carried out any more, which takes an
/// operation timeout.
const MAX_UNDOS: usize = 1_024;

impl LeaseCleanup {
    pub(super) fn new(lease: LeaseNumber, outstanding: Outstanding) -> Self {
        Self {
            lease,
            outstanding,
            replies: ReleaseReplies::default(),
            in_flight: false,
            next_at: Moment::START,
            failures: 0,
            in_doubt: false,
            left_before: None,
            unanswered: true,
            executed: false,
        }
    }

    /// Of a hold that ended in time; somebody may wait for the answer.
    pub(super) fn in_time(self, deadline: Moment, replies: ReleaseReplies) -> Self {
        Self { left_before: Some(deadline), replies, ..self }
    }

    /// Whether its first release is unanswered for this part of an operation timeout.
    pub(super) fn is_silent(&self, now: Moment, part: u32) -> bool {
        self.unanswered && self.in_flight && now.since(self.next_at) >= self.outstanding.timeout / part
    }

    pub(super) fn wake_at(&self) -> Moment {
        let next = if self.in_flight { Moment::NEVER } else { self.next_at };
        next.min(self.outstanding.over_at).min(self.replies.answer_by())
    }
}

impl Machine {
    /// From here on the id is never acquired again.
    pub(super) fn retire(&mut self, s: &mut Ctx<'_>, mut cleanups: LeaseCleanup) {
        cleanups.next_at = s.now;
        self.cleanups.push(cleanups);
        self.release_cleanups(s);
    }

    /// Whether a release is on its way that was not answered even once.
    pub(super) fn is_releasing(&self) -> bool {
        self.cleanups.iter().any(|cleanups| cleanups.unanswered)
    }

    /// Whether enough is being undone: no further acquire until some of it is.
    pub(super) fn has_enough_to_undo(&self) -> bool {
        let open = self.cleanups.iter().filter(|cleanups| !cleanups.executed).count();
        open >= MAX_OPEN_UNDOS || self.cleanups.len() >= MAX_UNDOS
    }

    pub(super) fn pass_time_for_cleanups(&mut self, s: &mut Ctx<'_>) {
        for cleanups in &mut self.cleanups {
            cleanups.replies.answer_overdue(s);
            if s.now >= cleanups.outstanding.over_at {
                cleanups.replies.answer(s, Err(Unconfirmed));
            }
        }
        self.cleanups.retain(|cleanups| s.now < cleanups.outstanding.over_at);
    }

    pub(super) fn release_cleanups(&mut self, s: &mut Ctx<'_>) {
        for cleanups in &mut self.cleanups {
            if !cleanups.in_flight && cleanups.next_at <= s.now {
                cleanups.in_flight = true;
                let (lease, timeout) = (cleanups.lease, cleanups.outstanding.timeout);
                s.emit(Command::Release { lease, depth_left: 0, notify: NotifyWaiters::Yes, timeout });
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
        let Some(at) = self.cleanups.iter().position(|cleanups| cleanups.lease == lease) else { return };
        let cleanups = &mut self.cleanups[at];
        cleanups.in_flight = false;
        cleanups.unanswered = false;
        let (executed_at, answer) = match outcome {
            Ok(Reply { now, outcome: Released::Released { listeners }, .. }) => {
                self.fairness.freed(s, listeners, self.watch.is_on());
                (now, Ok(ReleaseOutcome::Released))
            }
            Ok(Reply { now, outcome: Released::Gone { held_by_other }, .. }) => {
                // Past its deadline, a lease that ended by itself cannot be told from one that was lost before; nor, after
                // a release of unknown outcome, can one that was freed by it.
                let over = cleanups.left_before.is_some_and(|deadline| s.now >= deadline);
                match held_by_other {
                    _ if over || cleanups.in_doubt => (now, Err(Unconfirmed)),
                    true => (now, Ok(ReleaseOutcome::HeldByOther)),
                    false => (now, Ok(ReleaseOutcome::AlreadyExpired)),
                }
            }
            Ok(Reply { outcome: Released::Kept, .. }) => return cleanups.try_again(s, Failure::UNKNOWN),
            Err(failure) => return cleanups.try_again(s, failure),
        };
        cleanups.executed = true;
        cleanups.replies.answer(s, answer);
        match cleanups.outstanding.not_after {
            Some(not_after) if executed_at <= not_after => {
                cleanups.in_doubt = true;
                cleanups.next_at = s.now + not_after.since(executed_at) + Duration::from_millis(1);
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
