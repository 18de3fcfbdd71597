//! Cleanup of abandoned lease ids: each is released in the store until no lease with the id can be left.
//!
//! Sending the release once is not enough: an acquire whose outcome is unknown may be executed after it and leave an
//! orphaned lease. Stamping the acquire with `not_after` is not enough either: the release may overtake it within that
//! time. Together they are sufficient: the release is sent immediately, and repeated until it was executed at a server
//! time past the largest `not_after` that was sent for the id.

use super::{
    command::{Command, Ctx, ReleaseAnswer, ReleaseOutcome, Unconfirmed},
    event::{Failure, Ticket},
};
use crate::{
    backend::{Applied, NotifyWaiters, Released, Reply},
    fifo_map::FifoMap,
    ids::LeaseNumber,
    options::Terms,
    time::{Moment, UtcTime},
};
use std::time::Duration;

/// The maximum number of undos for one name that the store has not executed yet. A caller that retries while the store
/// fails with unknown outcomes would otherwise add one with each attempt.
pub(crate) const MAX_OPEN_UNDOS: usize = 16;
/// The maximum number of undos for one name. An executed undo stays until no attempt can be applied any more, which
/// takes an operation timeout.
pub(super) const MAX_UNDOS: usize = 1_024;

/// The cleanups of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Cleanups(Vec<LeaseCleanup>);

/// An abandoned lease id, kept until no lease with the id can be left in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LeaseCleanup {
    lease: LeaseNumber,
    outstanding: Outstanding,
    replies: ReleaseReplies,
    in_flight: bool,
    next_at: Moment,
    /// The first release is sent no earlier than this.
    kept_until: Moment,
    failures: u32,
    /// Set if an earlier release may have been applied: *gone* then proves nothing about the time before it.
    in_doubt: bool,
    /// The deadline of the hold, if its last guard was released before it: all work under the hold was protected.
    left_before: Option<Moment>,
    /// Set until the first reply. Until then, the next acquire waits, since it might find the lock taken by this lease.
    unanswered: bool,
    /// Set once a release was executed: an attempt can then be applied for at most one more operation timeout.
    executed: bool,
}

impl Cleanups {
    /// Starts a cleanup. From here on, its id is never acquired again.
    pub(super) fn retire(&mut self, s: &mut Ctx<'_>, mut cleanup: LeaseCleanup) {
        cleanup.next_at = s.now.max(cleanup.kept_until);
        self.0.push(cleanup);
        self.release_due(s);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, lease: LeaseNumber) -> bool {
        self.0.iter().any(|cleanup| cleanup.lease == lease)
    }

    /// Returns `true` if the first release of an abandoned lease has not been answered yet.
    pub(super) fn is_releasing(&self) -> bool {
        self.0.iter().any(|cleanup| cleanup.unanswered)
    }

    /// Returns `true` if a first release has been unanswered for the operation timeout divided by `part`.
    pub(super) fn is_silent(&self, now: Moment, part: u32) -> bool {
        let is_silent = |cleanup: &LeaseCleanup| {
            let unanswered = cleanup.unanswered && cleanup.in_flight;
            unanswered && now.since(cleanup.next_at) >= cleanup.outstanding.timeout / part
        };
        self.0.iter().any(is_silent)
    }

    /// Returns `true` if a lease whose hold has ended is kept for its minimum hold.
    pub(super) fn is_any_kept(&self, now: Moment) -> bool {
        self.0.iter().any(|cleanup| now < cleanup.kept_until)
    }

    /// Leaves the leases that are kept for their minimum hold to expire by themselves.
    pub(super) fn leave_kept(&mut self, now: Moment) {
        self.0.retain(|cleanup| now >= cleanup.kept_until);
    }

    /// Returns `true` if so much is being undone that no further acquire may start.
    pub(super) fn are_too_many(&self) -> bool {
        let open = self.0.iter().filter(|cleanup| !cleanup.executed).count();
        open >= MAX_OPEN_UNDOS || self.0.len() >= MAX_UNDOS
    }

    /// Returns the number of undos that the store has not executed yet, of attempts whose outcome is unknown or whose
    /// release has failed, and the number of all undos. The release of a hold is none.
    pub(super) fn undos(&self) -> (usize, usize) {
        let undos = || self.0.iter().filter(|cleanup| cleanup.left_before.is_none());
        let is_open = |cleanup: &&LeaseCleanup| {
            !cleanup.executed && (cleanup.failures > 0 || cleanup.outstanding.not_after.is_some())
        };
        (undos().filter(is_open).count(), undos().count())
    }

    pub(super) fn wake_at(&self) -> Option<Moment> {
        self.0.iter().map(LeaseCleanup::wake_at).min()
    }

    pub(super) fn pass_time(&mut self, s: &mut Ctx<'_>) {
        for cleanup in &mut self.0 {
            cleanup.replies.answer_overdue(s);
            if s.now >= cleanup.outstanding.over_at {
                cleanup.replies.answer(s, Err(Unconfirmed));
            }
        }
        self.0.retain(|cleanup| s.now < cleanup.outstanding.over_at);
    }

    pub(super) fn release_due(&mut self, s: &mut Ctx<'_>) {
        for cleanup in &mut self.0 {
            if !cleanup.in_flight && cleanup.next_at <= s.now {
                cleanup.in_flight = true;
                s.release(cleanup.lease, 0, cleanup.notify(), cleanup.outstanding.timeout);
            }
        }
    }

    /// Handles the reply to a release. The cleanup ends unless an attempt may still be applied.
    pub(super) fn on_released(
        &mut self,
        s: &mut Ctx<'_>,
        lease: LeaseNumber,
        outcome: Result<Reply<Released>, Failure>,
    ) {
        let Some(at) = self.0.iter().position(|cleanup| cleanup.lease == lease) else { return };
        let cleanup = &mut self.0[at];
        cleanup.in_flight = false;
        cleanup.unanswered = false;
        let (executed_at, answer) = match outcome {
            Ok(Reply { now, outcome: Released::Released { .. }, .. }) => (now, Ok(ReleaseOutcome::Released)),
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
                self.0.swap_remove(at);
            }
        }
    }
}

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

    /// Returns how the release notifies waiters. If the hold ended in time, the lease is almost certainly there, and
    /// the cheapest way will do. If attempts with an unknown outcome are left, the exact time of the release is needed.
    /// If the store refused the release, the lock is still taken, and a repeat wakes nobody unless it frees the lock.
    fn notify(&self) -> NotifyWaiters {
        let is_refused = self.failures > 0 && !self.in_doubt;
        match self.left_before.is_some() && self.outstanding.not_after.is_none() && !is_refused {
            true => NotifyWaiters::EvenIfGone,
            false => NotifyWaiters::Yes,
        }
    }

    fn wake_at(&self) -> Moment {
        let next = if self.in_flight { Moment::NEVER } else { self.next_at };
        next.min(self.outstanding.over_at).min(self.replies.answer_by())
    }

    fn try_again(&mut self, s: &mut Ctx<'_>, failure: Failure) {
        self.in_doubt |= failure.applied == Applied::Unknown;
        self.failures += 1;
        self.next_at = s.retry_at(self.failures, self.outstanding.timeout);
        if !failure.retryable {
            self.replies.answer(s, Err(Unconfirmed));
        }
    }
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

    /// Records that something with the id may last until then.
    pub(super) fn lasts(&mut self, until: Moment) {
        self.over_at = self.over_at.max(until);
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

/// Releases without a reply, each with the depth that it left and the deadline for its reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ReleaseReplies(FifoMap<Ticket, Open>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Open {
    left: u32,
    answer_by: Moment,
}

impl ReleaseReplies {
    pub(super) fn open(&mut self, ticket: Ticket, left: u32, answer_by: Moment) {
        self.0.insert(ticket, Open { left, answer_by });
    }

    /// Returns the earliest deadline for a reply.
    pub(super) fn answer_by(&self) -> Moment {
        self.0.iter().map(|(_, open)| open.answer_by).min().unwrap_or(Moment::NEVER)
    }

    /// Answers all releases. A release that left guards behind gets the remaining depth instead of *released*, *handed
    /// on* or *unconfirmed*.
    pub(super) fn answer(&mut self, s: &mut Ctx<'_>, answer: ReleaseAnswer) {
        while let Some((ticket, open)) = self.0.pop_front() {
            let answer = match (answer, open.left) {
                (Ok(ReleaseOutcome::Released | ReleaseOutcome::HandedOn) | Err(Unconfirmed), depth @ 1..) => {
                    Ok(ReleaseOutcome::StillHeld { depth })
                }
                (other, _) => other,
            };
            s.emit(Command::ReleaseAnswered { ticket: Some(ticket), answer });
        }
    }

    /// Answers the releases that left guards behind: the depth in this process is certain, whatever the store has
    /// recorded.
    pub(super) fn answer_inner(&mut self, s: &mut Ctx<'_>) {
        self.answer_if(s, |open| open.left > 0);
    }

    /// Answers the releases whose time has passed.
    pub(super) fn answer_overdue(&mut self, s: &mut Ctx<'_>) {
        let now = s.now;
        self.answer_if(s, |open| open.answer_by <= now);
    }

    /// Answers the chosen releases without the store: with the depth left in this process, or as unconfirmed.
    fn answer_if(&mut self, s: &mut Ctx<'_>, chosen: impl Fn(&Open) -> bool) {
        let next = |replies: &FifoMap<Ticket, Open>| {
            replies.iter().find(|(_, open)| chosen(open)).map(|(ticket, open)| (*ticket, open.left))
        };
        while let Some((ticket, left)) = next(&self.0) {
            self.0.remove(&ticket);
            let answer = match left {
                0 => Err(Unconfirmed),
                depth => Ok(ReleaseOutcome::StillHeld { depth }),
            };
            s.emit(Command::ReleaseAnswered { ticket: Some(ticket), answer });
        }
    }
}
