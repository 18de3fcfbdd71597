//! Lease ids that were given up: released in the store until nothing of them can be left.
//!
//! Sending the release once is not enough: an acquire of unknown outcome may be carried out after it, and leave
//! an orphan. Stamping the acquire with `not_after` is not enough either: the release may overtake it inside
//! that time. Both together are: release at once, and again until one was carried out at a server time past the
//! largest `not_after` that was sent for the id.

use super::{
    Command, Failure, Machine, Moment, ReleaseOutcome, Step, Traces, Unconfirmed, pace, tickets::Tickets,
};
use crate::{
    backend::{Applied, Publish, Released, Reply},
    ids::LeaseNumber,
};
use std::time::Duration;

/// Undos of one name that the store has not carried out even once. A caller that tries again and again while the store fails
/// with unknown outcomes would otherwise leave one more with each try.
pub(crate) const MAX_OPEN_UNDOS: usize = 16;
/// Undos of one name in all. Those that were carried out stay until no attempt can be carried out any more, which takes an
/// operation timeout.
const MAX_UNDOS: usize = 1_024;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Retired {
    lease: LeaseNumber,
    pub(super) traces: Traces,
    tickets: Tickets,
    in_flight: bool,
    next_at: Moment,
    failures: u32,
    /// An earlier release may have been carried out: *gone* then says nothing about the time before it.
    in_doubt: bool,
    /// The last guard left before this deadline of its hold: what it protected was protected.
    left_before: Option<Moment>,
    /// No answer yet: the next acquire waits, or it would find our own lease in its way.
    unanswered: bool,
    /// A release of it was carried out: whatever it still leaves is over within an operation timeout.
    executed: bool,
}

impl Retired {
    pub(super) fn new(lease: LeaseNumber, traces: Traces) -> Self {
        Self {
            lease,
            traces,
            tickets: Tickets::default(),
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
    pub(super) fn in_time(self, deadline: Moment, tickets: Tickets) -> Self {
        Self { left_before: Some(deadline), tickets, ..self }
    }

    /// Whether its first release is unanswered for this part of an operation timeout.
    pub(super) fn is_silent(&self, now: Moment, part: u32) -> bool {
        self.unanswered && self.in_flight && now.since(self.next_at) >= self.traces.timeout / part
    }

    pub(super) fn wake_at(&self) -> Moment {
        let next = if self.in_flight { Moment::FAR } else { self.next_at };
        next.min(self.traces.over_at).min(self.tickets.answer_by())
    }
}

impl Machine {
    /// From here on the id is never acquired again.
    pub(super) fn retire(&mut self, s: &mut Step<'_>, mut retired: Retired) {
        retired.next_at = s.now;
        self.retired.push(retired);
        self.release_retired(s);
    }

    /// Whether a release is on its way that was not answered even once.
    pub(super) fn is_releasing(&self) -> bool {
        self.retired.iter().any(|retired| retired.unanswered)
    }

    /// Whether enough is being undone: no further acquire until some of it is.
    pub(super) fn has_enough_to_undo(&self) -> bool {
        let open = self.retired.iter().filter(|retired| !retired.executed).count();
        open >= MAX_OPEN_UNDOS || self.retired.len() >= MAX_UNDOS
    }

    pub(super) fn pass_time_for_retired(&mut self, s: &mut Step<'_>) {
        for retired in &mut self.retired {
            retired.tickets.answer_overdue(s);
            if s.now >= retired.traces.over_at {
                retired.tickets.answer(s, Err(Unconfirmed));
            }
        }
        self.retired.retain(|retired| s.now < retired.traces.over_at);
    }

    pub(super) fn release_retired(&mut self, s: &mut Step<'_>) {
        for retired in &mut self.retired {
            if !retired.in_flight && retired.next_at <= s.now {
                retired.in_flight = true;
                let (lease, timeout) = (retired.lease, retired.traces.timeout);
                s.say(Command::Release { lease, depth_left: 0, publish: Publish::Yes, timeout });
            }
        }
    }

    pub(super) fn on_released(
        &mut self,
        s: &mut Step<'_>,
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
        let Some(at) = self.retired.iter().position(|retired| retired.lease == lease) else { return };
        let retired = &mut self.retired[at];
        retired.in_flight = false;
        retired.unanswered = false;
        let (executed_at, answer) = match outcome {
            Ok(Reply { now, outcome: Released::Released { listeners }, .. }) => {
                self.turns.freed(s, listeners, self.watch.is_on());
                (now, Ok(ReleaseOutcome::Released))
            }
            Ok(Reply { now, outcome: Released::Gone { held_by_other }, .. }) => {
                // Past its deadline, a lease that ended by itself cannot be told from one that was lost before; nor, after
                // a release of unknown outcome, can one that was freed by it.
                let over = retired.left_before.is_some_and(|deadline| s.now >= deadline);
                match held_by_other {
                    _ if over || retired.in_doubt => (now, Err(Unconfirmed)),
                    true => (now, Ok(ReleaseOutcome::HeldByOther)),
                    false => (now, Ok(ReleaseOutcome::AlreadyExpired)),
                }
            }
            Ok(Reply { outcome: Released::Kept, .. }) => return retired.try_again(s, Failure::UNKNOWN),
            Err(failure) => return retired.try_again(s, failure),
        };
        retired.executed = true;
        retired.tickets.answer(s, answer);
        match retired.traces.not_after {
            Some(not_after) if executed_at <= not_after => {
                retired.in_doubt = true;
                retired.next_at = s.now + not_after.since(executed_at) + Duration::from_millis(1);
            }
            _ => {
                self.retired.swap_remove(at);
            }
        }
    }
}

impl Retired {
    fn try_again(&mut self, s: &mut Step<'_>, failure: Failure) {
        self.in_doubt |= failure.applied == Applied::Unknown;
        self.failures += 1;
        self.next_at = s.now + pace::back_off(s, self.failures, self.traces.timeout);
        if !failure.retryable {
            self.tickets.answer(s, Err(Unconfirmed));
        }
    }
}
