//! Tries to acquire the lock for the front of the queue: one request in flight.
//!
//! An attempt whose outcome is unknown is repeated under its lease id, which is harmless. After any other reply, the
//! next attempt draws another id: of two copies of a process that waits, each then has its own. The first release uses
//! up an id.

use super::{
    Acquisition, Attempt, Backoff, Hold, Machine,
    cleanup::{LeaseCleanup, Outstanding},
    command::{Command, Ctx, GrantSource, MAX_CONSECUTIVE_LATE, Notice, Refusal, slowest_retry},
    event::{Entry, Failure, HoldId, WaitPolicy},
    fairness::SLOWEST_POLL,
    hold::{deadline, max_hold_at},
    queue::{Cause, Overdue},
};
use crate::{
    backend::{AcquireMode, Acquired, Applied, PermitRequest, Place, Reply},
    ids::{FencingToken, LeaseNumber},
    time::{Moment, UtcTime},
};
use std::time::Duration;

/// The first polling interval with back-off, which applies after busy replies that do not report the other lease's
/// remaining time, and to a backend that cannot push.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The factor by which each wait is longer than the previous one while the remaining time is unknown: the other lease
/// may never expire.
const SLOWER: u32 = 10;
/// An attempt that is unanswered for the operation timeout divided by this indicates an outage.
const SILENT_PART: u32 = 10;
/// The time within which an attempt follows a report of missed wake-ups.
const MISSED_WAKES_SPREAD: Duration = Duration::from_millis(500);
/// The number of rounds within which rivals resolve a split vote. After that, something else is probably wrong, and
/// rounds become less frequent.
const MAX_QUICK_ROUNDS: u32 = 5;

/// The number of requests by which a waiter keeps its place in the queue of a pool for one patience.
const ASKS_PER_PATIENCE: u32 = 3;

/// The shortest time for which the store keeps a place in the queue of a pool.
const MIN_PATIENCE: Duration = Duration::from_secs(6);

/// Returns the time for which the store keeps a waiter's place in the queue of a pool: a request that fails may be
/// repeated in it.
fn patience(operation_timeout: Duration) -> Duration {
    MIN_PATIENCE.max(operation_timeout * 2)
}

/// Returns the first multiple of `every` after `now`.
fn next_multiple(now: Moment, every: Duration) -> Moment {
    let every = u64::try_from(every.as_micros()).unwrap_or(u64::MAX).max(1);
    Moment::from_micros((now.as_micros() / every).saturating_add(1).saturating_mul(every))
}

impl Acquisition {
    fn new(lease: LeaseNumber, next_try: Moment) -> Self {
        Self {
            lease,
            attempt: None,
            next_try,
            outstanding: Outstanding::default(),
            asked_for: None,
            answered_at: next_try,
            taken: false,
            longest: Duration::ZERO,
            place: None,
            busies: 0,
            lates: 0,
        }
    }

    /// Returns `true` if the store may have a lease with this id.
    fn may_exist(&self) -> bool {
        self.taken || self.outstanding.not_after.is_some()
    }

    /// Returns `true` if the id of the latest attempt is also that of a place in a queue.
    fn is_place(&self) -> bool {
        self.place == Some(self.lease)
    }

    /// Returns `true` if the outcome of an attempt is unknown, or may become so.
    fn is_in_doubt(&self) -> bool {
        self.attempt.is_some() || self.outstanding.not_after.is_some()
    }

    /// Handles a busy reply that was executed at this server time: after every `not_after`, nothing of the id is left.
    fn settle(&mut self, executed: UtcTime) {
        if !self.taken && self.outstanding.not_after.is_some_and(|not_after| not_after < executed) {
            self.outstanding.not_after = None;
            self.longest = Duration::ZERO;
        }
    }

    /// Records an attempt whose outcome is unknown.
    fn unknown(&mut self, attempt: &Attempt) {
        self.outstanding.unknown(attempt.not_after);
        self.longest = self.longest.max(attempt.terms.lease);
    }
}

impl Machine {
    pub(super) fn next_try(&self) -> Option<Moment> {
        if self.hold.is_some()
            || !self.queue.has_queued()
            || self.cleanups.is_releasing()
            || self.cleanups.are_too_many()
        {
            return None;
        }
        match &self.acquisition {
            Some(acquisition) if acquisition.attempt.is_some() => None,
            // A single attempt is delayed neither by others' failures nor by the pause of a waiter that just left: its
            // caller wants an immediate reply.
            _ if self.queue.front()?.wait_policy == WaitPolicy::NoWait => {
                Some(self.fairness.single_try_from())
            }
            // The reply to another waiter's attempt may be old: with a stream of short waits, an outage would go
            // unnoticed.
            Some(acquisition)
                if acquisition.asked_for != Some(self.queue.front()?.waiter) && !self.queue.is_outage() =>
            {
                Some(acquisition.next_try.min(acquisition.answered_at + self.config.unsubscribed_poll))
            }
            Some(acquisition) => Some(acquisition.next_try),
            None => Some(self.backoff.resume_at.max(self.fairness.others_until)),
        }
    }

    /// Returns the refusal for a waiter whose time has passed. While the store is silent, other holders are unknown,
    /// and this waiter's attempt may still be applied.
    pub(super) fn refuse_overdue(&self, now: Moment, overdue: Overdue, is_front: bool) -> Refusal {
        let own = self.acquisition.as_ref().filter(|_| is_front);
        let in_doubt = overdue.reenters || own.is_some_and(Acquisition::is_in_doubt);
        let unavailable = if in_doubt { Refusal::Unanswered } else { Refusal::Outage };
        match overdue.cause {
            Cause::OutageBudget => unavailable,
            // No other holder keeps an owner from re-entering.
            Cause::WaitOver if overdue.reenters => unavailable,
            Cause::WaitOver if self.hold.is_none() && self.is_store_silent(now) => unavailable,
            Cause::WaitOver if in_doubt && own.is_some_and(|own| own.busies == 0) => unavailable,
            Cause::WaitOver if in_doubt => Refusal::Timeout(Applied::Unknown),
            Cause::WaitOver => Refusal::Timeout(Applied::No),
        }
    }

    /// Returns `true` if the latest request to the store failed, or if an attempt or a first release has been
    /// unanswered for longer than usual.
    fn is_store_silent(&self, now: Moment) -> bool {
        let attempt = self.acquisition.as_ref().and_then(|acquisition| acquisition.attempt.as_ref());
        let silent =
            |attempt: &Attempt| now.since(attempt.sent) >= attempt.terms.operation_timeout / SILENT_PART;
        self.queue.is_outage() || attempt.is_some_and(silent) || self.cleanups.is_silent(now, SILENT_PART)
    }

    pub(super) fn try_if_due(&mut self, s: &mut Ctx<'_>) {
        let Some(front) = self.queue.front() else { return self.end_idle_acquisition(s) };
        if self.next_try().is_none_or(|at| at > s.now) {
            return;
        }
        let (waiter, terms) = (front.waiter, front.terms.clone());
        let waits = front.wait_policy != WaitPolicy::NoWait;
        let reserve = self.tokens_to_reserve(&terms);
        // An expiry never decreases: if this id were repeated, the longer lease of a waiter that left would outlive
        // this holder.
        if let Some(acquisition) = self.acquisition.take_if(|acquisition| acquisition.longest > terms.lease) {
            return self.undo(s, acquisition);
        }
        let repeated = self.acquisition.as_ref().filter(|acquisition| acquisition.may_exist());
        let repeated = repeated.map(|acquisition| acquisition.lease);
        let Some(lease) = repeated.or_else(|| s.fresh_lease()) else {
            return self.refuse_queued(s, Refusal::NoRandom);
        };
        let acquisition = self.acquisition.get_or_insert_with(|| Acquisition::new(lease, s.now));
        if repeated.is_none() {
            (acquisition.lease, acquisition.outstanding) = (lease, Outstanding::default());
        }
        acquisition.outstanding.sent(s.now, &terms);
        acquisition.asked_for = Some(waiter);
        let floor = terms.token_floor;
        let mode = match terms.share {
            Some(share) => {
                let place = waits.then(|| {
                    // The first lease names the place. It is not requested again once the place is there.
                    let id = *acquisition.place.get_or_insert(lease);
                    let patience = patience(terms.operation_timeout);
                    if id == lease {
                        // The release of the lease gives up the place, which may last longer.
                        acquisition.outstanding.lasts(s.now + terms.operation_timeout + patience);
                    }
                    Place { id: s.lease_id(id), patience }
                });
                AcquireMode::Permit(PermitRequest { share, place, floor }.into())
            }
            None => AcquireMode::New { reserve, floor },
        };
        let not_after = s.acquire(lease, mode, &terms);
        acquisition.attempt =
            Some(Attempt { waiter, sent: s.now, terms, not_after, woken: false, suspect: false });
    }

    fn refuse_queued(&mut self, s: &mut Ctx<'_>, refusal: Refusal) {
        for waiter in self.queue.drain_queued() {
            s.refuse(waiter, refusal);
        }
    }

    /// Ends an acquisition that has no waiters left. A request in flight is awaited, since its reply shows what has to
    /// be undone.
    fn end_idle_acquisition(&mut self, s: &mut Ctx<'_>) {
        if let Some(acquisition) = self.acquisition.take_if(|acquisition| acquisition.attempt.is_none()) {
            self.undo(s, acquisition);
        }
    }

    fn undo(&mut self, s: &mut Ctx<'_>, acquisition: Acquisition) {
        if acquisition.may_exist() {
            self.cleanups.retire(s, LeaseCleanup::new(acquisition.lease, acquisition.outstanding));
        }
        // A place with the id of the lease is given up by the same release.
        let may_have_place = acquisition.busies > 0 || acquisition.may_exist();
        if may_have_place && !(acquisition.may_exist() && acquisition.is_place()) {
            self.give_up_place(s, &acquisition);
        }
    }

    /// Gives up a place in the queue of a pool.
    fn give_up_place(&mut self, s: &mut Ctx<'_>, acquisition: &Acquisition) {
        if let Some(id) = acquisition.place {
            let timeout = acquisition.outstanding.timeout;
            // By then, the store has dropped the place, and has carried out every request for it.
            let mut outstanding = acquisition.outstanding;
            outstanding.lasts(s.now + timeout + patience(timeout));
            self.cleanups.retire(s, LeaseCleanup::new(id, outstanding));
        }
    }

    pub(super) fn on_woken(&mut self, s: &mut Ctx<'_>) {
        let waits_until = self.queue.front().map(|front| match front.wait_policy {
            WaitPolicy::NoWait => s.now,
            WaitPolicy::Deadline(at) => at,
            WaitPolicy::Unbounded => Moment::NEVER,
        });
        let at = self.fairness.woken(s.now, self.cleanups.is_releasing(), waits_until);
        self.try_again_from(s.now, at);
    }

    pub(super) fn on_missed_wakes(&mut self, s: &mut Ctx<'_>) {
        let at = s.now + s.jitter(MISSED_WAKES_SPREAD);
        self.try_again_from(at, at);
    }

    /// Ends the back-off at `resume_at`, and the pause between two attempts at `next_try`. An attempt in flight is
    /// repeated after its reply.
    fn try_again_from(&mut self, resume_at: Moment, next_try: Moment) {
        self.backoff.resume_at = self.backoff.resume_at.min(resume_at);
        let Some(acquisition) = &mut self.acquisition else { return };
        match &mut acquisition.attempt {
            Some(attempt) => attempt.woken = true,
            None => acquisition.next_try = acquisition.next_try.min(next_try),
        }
    }

    /// Handles the reply to the request in flight. A reply for another lease has come too late and is ignored.
    pub(super) fn on_acquired(
        &mut self,
        s: &mut Ctx<'_>,
        lease: LeaseNumber,
        outcome: Result<Reply<Acquired>, Failure>,
    ) {
        if self.hold.as_ref().is_some_and(|hold| hold.id.lease == lease) {
            return self.on_raised(s, outcome);
        }
        let Some(acquisition) = self.acquisition.as_mut().filter(|acquisition| acquisition.lease == lease)
        else {
            return;
        };
        let Some(attempt) = acquisition.attempt.take() else { return };
        match outcome {
            Ok(Reply { outcome: Acquired::Late, .. }) => self.on_late(s, &attempt),
            Ok(reply) => {
                acquisition.lates = 0;
                match reply.outcome {
                    Acquired::Granted { first, last } => self.on_granted(s, &attempt, first, last),
                    Acquired::Busy { remaining, .. } => {
                        acquisition.settle(reply.now);
                        self.on_busy(s, &attempt, remaining);
                    }
                    Acquired::Queued { remaining } => {
                        acquisition.settle(reply.now);
                        self.on_queued(s, &attempt, remaining);
                    }
                    Acquired::Contended { retry_after } => self.on_contended(s, &attempt, retry_after),
                    // Not a valid reply to a plain acquire. The attempt is repeated or undone, as if its outcome were
                    // unknown.
                    Acquired::Reentered | Acquired::Gone | Acquired::Late => {
                        self.on_failed(s, &attempt, Failure::UNKNOWN);
                    }
                }
            }
            Err(failure) => self.on_failed(s, &attempt, failure),
        }
        self.use_lease_up(s);
    }

    /// Discards the lease id if every attempt needs its own. The attempt is undone, unless the store has already undone
    /// it.
    fn use_lease_up(&mut self, s: &mut Ctx<'_>) {
        let Some(acquisition) = self.acquisition.as_mut().filter(|_| self.config.lease_per_attempt) else {
            return;
        };
        let exists = acquisition.may_exist();
        let outstanding = std::mem::take(&mut acquisition.outstanding);
        acquisition.taken = false;
        acquisition.longest = Duration::ZERO;
        if exists {
            let lease = acquisition.lease;
            self.cleanups.retire(s, LeaseCleanup::new(lease, outstanding));
        }
    }

    fn on_granted(&mut self, s: &mut Ctx<'_>, attempt: &Attempt, first: FencingToken, last: FencingToken) {
        self.queue.outage_over();
        self.fairness.took(attempt.sent, s.now);
        let Some(acquisition) = &mut self.acquisition else { return };
        let (sent, terms) = (attempt.sent, &attempt.terms);
        let is_over = s.now >= deadline(sent, terms).min(max_hold_at(sent, terms));
        let front = self.queue.front();
        let Some(front) = front.filter(|_| !is_over) else {
            // No waiter is left, or the reply came when the hold was already over because this process was paused or
            // the store is slow. In the second case, the next attempt is delayed, so that the lock is not taken from
            // others again and again.
            acquisition.taken = true;
            if let Some(acquisition) = self.acquisition.take() {
                self.undo(s, acquisition);
            }
            match is_over {
                true => self.backoff.failed(s, attempt.terms.operation_timeout),
                false => self.backoff.answered(),
            }
            return;
        };
        self.backoff.answered();
        if front.terms != attempt.terms {
            // The lock was granted under the terms of a waiter that left, so it is requested again under the right
            // terms. The lease is kept unless it is too long, in which case it is released and another id is used.
            acquisition.taken = true;
            acquisition.longest = acquisition.longest.max(attempt.terms.lease);
            acquisition.next_try = s.now;
            return;
        }
        let id = HoldId { lease: acquisition.lease, token: first };
        let hold = Hold::new(id, last, front, sent, s.now, acquisition.outstanding);
        let grant = hold.grant(GrantSource::Store);
        self.hold = Some(hold);
        if let Some(acquisition) = self.acquisition.take()
            && acquisition.outstanding.not_after.is_some()
            && !acquisition.is_place()
        {
            // The grant ended the place, but an earlier delivery of the request may yet take it again.
            self.give_up_place(s, &acquisition);
        }
        if attempt.suspect {
            self.on_suspicion(s);
        }
        self.grant_front(s, grant);
    }

    fn on_busy(&mut self, s: &mut Ctx<'_>, attempt: &Attempt, remaining: Option<Duration>) {
        self.backend_answered();
        self.fairness.other_has_it(!attempt.woken);
        self.refuse_impatient(s, attempt, Refusal::Busy);
        self.notice_long_wait(s);
        self.watch.want();
        // With a subscription, polling is only a fallback.
        let most = match self.watch.is_on() {
            true => attempt.terms.poll_interval,
            false => attempt.terms.poll_interval.min(self.config.unsubscribed_poll),
        };
        let polls = !self.config.push;
        let Some(acquisition) = &mut self.acquisition else { return };
        acquisition.busies = acquisition.busies.saturating_add(1);
        acquisition.answered_at = s.now;
        acquisition.next_try = if attempt.woken {
            s.now.max(self.fairness.others_until)
        } else {
            let unknown = || MIN_POLL_INTERVAL * SLOWER.pow(acquisition.busies.min(4) - 1);
            let mut wait = remaining
                .map_or_else(unknown, |left| left.saturating_add(Duration::from_millis(1)))
                .min(most);
            if polls {
                wait = wait.min(
                    (MIN_POLL_INTERVAL * 2u32.saturating_pow(acquisition.busies.min(8) - 1))
                        .min(SLOWEST_POLL),
                );
            }
            s.now + wait + s.jitter(Duration::from_millis(5) + wait / 20)
        };
    }

    /// Handles a place in the queue of a pool. It is kept by asking again, at times that all waiters of the process share,
    /// so that their requests share calls.
    fn on_queued(&mut self, s: &mut Ctx<'_>, attempt: &Attempt, remaining: Option<Duration>) {
        self.backend_answered();
        let Some(acquisition) = &mut self.acquisition else { return };
        acquisition.busies = acquisition.busies.saturating_add(1);
        acquisition.answered_at = s.now;
        let every = patience(attempt.terms.operation_timeout) / ASKS_PER_PATIENCE;
        let shared = next_multiple(s.now, every);
        let ends = remaining.map_or(Moment::NEVER, |left| s.now + left + Duration::from_millis(1));
        let polls = match self.config.push {
            true => Moment::NEVER,
            false => s.now + SLOWEST_POLL + s.jitter(SLOWEST_POLL / 4),
        };
        acquisition.next_try = if attempt.woken { s.now } else { shared.min(ends).min(polls) };
    }

    /// Returns `true` if a wake-up came after the attempt in flight was sent.
    pub(super) fn is_woken(&self) -> bool {
        let attempt = self.acquisition.as_ref().and_then(|acquisition| acquisition.attempt.as_ref());
        attempt.is_some_and(|attempt| attempt.woken)
    }

    /// Reports, once, a front waiter that has waited for another process for longer than two of its leases: two
    /// processes may take two locks in opposite orders. Called with each busy reply, at least once in each lease.
    fn notice_long_wait(&self, s: &mut Ctx<'_>) {
        let (Some((since, lease)), Some(acquisition)) = (self.queue.waits_without_limit(), &self.acquisition)
        else {
            return;
        };
        let long = since + lease * 2;
        if acquisition.answered_at < long && long <= s.now {
            s.emit(Command::Notice(Notice::LongWait { waited: s.now.since(since) }));
        }
    }

    /// Handles a split vote. The backend has already undone the attempt, which used up the lease id.
    fn on_contended(&mut self, s: &mut Ctx<'_>, attempt: &Attempt, retry_after: Duration) {
        self.queue.outage_over();
        self.refuse_impatient(s, attempt, Refusal::Busy);
        if let Some(acquisition) = self.acquisition.take() {
            self.undo(s, acquisition);
        }
        self.backoff.contended(s, retry_after, attempt.terms.operation_timeout);
    }

    /// Handles an attempt that was not applied because the estimate of the server's clock was wrong. The reply contains
    /// the correct time.
    fn on_late(&mut self, s: &mut Ctx<'_>, attempt: &Attempt) {
        let Some(acquisition) = &mut self.acquisition else { return };
        // This delivery was not applied; an earlier one may have been.
        if !self.config.lease_per_attempt {
            acquisition.unknown(attempt);
        }
        acquisition.lates += 1;
        acquisition.next_try = s.now;
        if acquisition.lates > MAX_CONSECUTIVE_LATE {
            self.on_failed(s, attempt, Failure { applied: Applied::No, retryable: true });
        }
    }

    fn on_failed(&mut self, s: &mut Ctx<'_>, attempt: &Attempt, failure: Failure) {
        self.backoff.failed(s, attempt.terms.operation_timeout);
        let Some(acquisition) = &mut self.acquisition else { return };
        if failure.applied == Applied::Unknown {
            acquisition.unknown(attempt);
        }
        acquisition.next_try = if attempt.woken { s.now } else { self.backoff.resume_at };
        let applied = if acquisition.is_in_doubt() { Applied::Unknown } else { Applied::No };
        if failure.retryable {
            self.queue.outage_began(attempt.sent);
            self.refuse_impatient(s, attempt, Refusal::Failed(applied));
        } else {
            for waiter in self.queue.drain_queued() {
                let applied = if waiter == attempt.waiter { applied } else { Applied::No };
                s.refuse(waiter, Refusal::Failed(applied));
            }
        }
    }

    pub(super) fn backend_answered(&mut self) {
        self.backoff.answered();
        self.queue.outage_over();
    }

    /// Refuses the front waiter if it wanted a single attempt and this attempt was made for it: an attempt for a waiter
    /// that left may be older. Such waiters further back were already refused on entry.
    fn refuse_impatient(&mut self, s: &mut Ctx<'_>, attempt: &Attempt, refusal: Refusal) {
        let its_own =
            |front: &Entry| front.wait_policy == WaitPolicy::NoWait && front.waiter == attempt.waiter;
        let impatient = self.queue.front().filter(|front| its_own(front)).map(|front| front.waiter);
        if let Some(waiter) = impatient {
            self.queue.remove(waiter);
            s.refuse(waiter, refusal);
        }
    }
}

impl Backoff {
    fn failed(&mut self, s: &mut Ctx<'_>, timeout: Duration) {
        self.failures = self.failures.saturating_add(1);
        self.resume_at = s.retry_at(self.failures, timeout);
    }

    /// Records a split vote: the next acquire waits for the time that the backend requests, doubled with each round
    /// after the first few.
    fn contended(&mut self, s: &Ctx<'_>, retry_after: Duration, timeout: Duration) {
        let contended = self.contended.saturating_add(1);
        let times = 2u32.saturating_pow(contended.saturating_sub(MAX_QUICK_ROUNDS).min(16));
        // At least 1 ms: with zero, a store that replies immediately would cause an endless loop.
        let quick = retry_after.max(Duration::from_millis(1));
        let slowest = slowest_retry(timeout).max(quick);
        let resume_at = s.now + quick.saturating_mul(times).min(slowest);
        *self = Self { failures: 0, contended, resume_at };
    }

    fn answered(&mut self) {
        *self = Self::default();
    }
}
