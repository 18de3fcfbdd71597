//! The lock state machine: every decision this process makes about one lock name.
//!
//! It is a plain value. Events go in, commands come out, and the time is an argument; it reads no clock, does no I/O,
//! wakes no task and logs nothing. The same type is run by the driver, tested in virtual time, and explored by a model
//! checker.
//!
//! ```text
//!   Enter ─▶ QUEUE of waiters, first in, first out ───────── Leave · wait over · outage · Shutdown ─▶ Refuse
//!              │ the front one, and no hold
//!              ▼
//!          ACQUISITION  ◀──────────────────────────────┐
//!              │ acquire, with a fresh lease id        │ wake-up, other lease expired, back-off
//!              ├─ Busy ──▶ Watch, acknowledged ──▶ wait ┤
//!              ├─ Unknown / Late ──────────────────────┘  (same id: repeating is harmless)
//!              ├─ Granted, nobody waits any more ─────────────────────────────┐
//!              ▼ Granted                                                      │
//!          HOLD  owner, token, depth, deadline                                │
//!              │  ┌ Held ──── a third of the lease ────▶ renew ─┐             │
//!              │  │  ▲  Renewed: deadline = sent + lease − margin│             │
//!              │  └──┴── Unknown: Suspect, retry quickly ◀───────┘             │
//!              │  same owner enters ─▶ REENTRANT ─▶ acquire (re-entry) ─▶ Grant
//!              ├─ Released by its last guard                                  │
//!              │     └─ HAND-OFF: somebody waits here, budget left ─▶ the same HOLD, next owner and token
//!              └─ Lost: Gone · deadline · max_hold · Shutdown                 │
//!              ▼                                                              ▼
//!          CLEANUP of the lease id: release now, and again until it was executed past every
//!          `not_after` of an attempt whose outcome is unknown; never acquired again
//! ```
//!
//! Invariants, each explained where it is enforced: at most one depth-changing operation is in flight per lease; the
//! expiry and the deadline never decrease; a lease id is used up by its first release; a wake-up during an attempt is
//! remembered; an attempt whose outcome is unknown is repeated or undone; the deadline counts from before the request
//! was sent.

mod acquisition;
mod backoff;
mod cleanups;
mod command;
mod context;
mod depth;
mod event;
mod fairness;
mod hand_off;
mod hold;
mod outstanding;
mod queue;
mod renewal;
mod replies;
mod state;
mod turn_order;
mod watch;

#[cfg(test)]
mod tests;

pub(crate) use cleanups::MAX_OPEN_UNDOS;
pub use command::{
    Command, Grant, GrantSource, HoldEnd, LostReason, Notice, Refusal, ReleaseAnswer, ReleaseOutcome,
    RenewalOutcome, Unconfirmed,
};
pub use context::Env;
pub use event::{Entry, Event, Failure, HoldId, Join, OwnerId, Ticket, WaitPolicy, WaiterId, WatchAnswer};
pub use state::{Machine, MachineConfig};

use crate::time::Moment;
use backoff::Backoff;
use context::Ctx;
use fairness::Fairness;
use queue::Queue;
use state::{LeaseCleanup, Watch};

impl Machine {
    /// Creates a machine that holds nothing and waits for nothing.
    #[must_use]
    pub fn new(config: MachineConfig) -> Self {
        Self {
            config,
            queue: Queue::default(),
            acquisition: None,
            hold: None,
            cleanups: Vec::new(),
            lost_holds: Vec::new(),
            watch: Watch::default(),
            backoff: Backoff::default(),
            fairness: Fairness::default(),
            closed: false,
        }
    }

    /// Handles an event at `now` and adds the resulting commands to `out`.
    ///
    /// Time passes first: an event that arrives after a deadline finds the hold lost.
    pub fn handle(&mut self, now: Moment, event: Event, env: &mut dyn Env, out: &mut Vec<Command>) {
        let s = &mut Ctx { now, env, out };
        self.pass_time(s);
        match event {
            Event::Enter(entry) => self.enter(s, entry),
            Event::Leave { waiter } => self.queue.remove(waiter),
            Event::Acquired { lease, outcome } => self.on_acquired(s, lease, outcome),
            Event::Renewed { lease, sent, outcome } => self.on_renewed(s, lease, sent, outcome),
            Event::Released { lease, depth_left, outcome } => self.on_released(s, lease, depth_left, outcome),
            Event::Watched(answer) => self.on_watched(s, answer),
            Event::Unwatched(answer) => self.on_unwatched(s, answer),
            Event::Woken => self.on_woken(s),
            Event::MissedWakes => self.on_missed_wakes(s),
            Event::Suspicion => self.on_suspicion(s),
            Event::Release { hold, ticket } => self.on_release(s, hold, Some(ticket)),
            Event::Drop { hold } => self.on_release(s, hold, None),
            Event::Expired { hold } => self.on_expired(s, hold),
            Event::RenewEarly => self.renew_early(s),
            Event::Tick => {}
            Event::Shutdown => self.on_close(s),
        }
        self.advance(s);
    }

    /// Returns the time by which [`handle`](Machine::handle) must be called with [`Event::Tick`], if any.
    #[must_use]
    pub fn wake_at(&self) -> Option<Moment> {
        let hold = self.hold.as_ref().and_then(|hold| hold.wake_at(self.queue.has_reentrants()));
        let cleanups = self.cleanups.iter().map(LeaseCleanup::wake_at).min();
        // While subscribed, the machine is kept in any case.
        let is_idle = self.is_drained() && self.watch.is_off() && !self.closed;
        let forget = self.fairness.remembered_until().filter(|_| is_idle);
        let parts = [self.queue.next_alarm(), hold, cleanups, self.next_try(), self.watch.wake_at(), forget];
        parts.into_iter().flatten().min().filter(|at| *at != Moment::NEVER)
    }

    /// Returns `true` if the machine can be dropped: nothing is held, requested or in progress, no guard is left, and
    /// no other process must be given a turn first.
    #[must_use]
    pub fn is_removable(&self) -> bool {
        let is_remembered = !self.closed && self.fairness.remembered_until().is_some();
        self.is_drained() && self.lost_holds.is_empty() && self.watch.is_off() && !is_remembered
    }

    /// Returns `true` if nothing is held or requested, and nothing has to be undone. After a shutdown, this means that
    /// all work is done.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.hold.is_none() && self.acquisition.is_none() && self.cleanups.is_empty() && self.queue.is_empty()
    }

    /// Returns the number of waiters, including re-entries.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.queue.len()
    }

    /// Returns the holder in this process: owner, hold, number of guards, deadline.
    #[must_use]
    pub fn holder(&self) -> Option<(OwnerId, HoldId, u32, Moment)> {
        let hold = self.hold.as_ref().filter(|hold| !hold.ended)?;
        Some((hold.owner, hold.id, hold.guards, hold.deadline.min(hold.max_hold_at)))
    }

    /// Returns `true` if a renewal failed, or if no renewal has succeeded since an [`Event::Suspicion`]. The hold is
    /// still valid.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| !hold.ended && hold.renewal.is_suspect())
    }

    /// Ends every hold, wait and cleanup whose time has passed.
    fn pass_time(&mut self, s: &mut Ctx<'_>) {
        self.fairness.pass_time(s.now);
        self.pass_time_for_hold(s);
        self.pass_time_for_cleanups(s);
        let asked_for = self.queue.front().map(|front| front.waiter);
        while let Some(overdue) = self.queue.pop_alarm(s.now) {
            let waiter = overdue.waiter;
            let refusal = self.refuse_overdue(s.now, overdue, asked_for == Some(waiter));
            s.emit(Command::Refuse { waiter, refusal });
        }
    }

    /// Sends due operations. Every event ends here, so handlers only change state.
    fn advance(&mut self, s: &mut Ctx<'_>) {
        self.settle_depth(s);
        self.renew_if_due(s);
        self.release_cleanups(s);
        self.try_if_due(s);
        self.tend_watch(s);
        self.notice_local_wait(s);
    }

    fn enter(&mut self, s: &mut Ctx<'_>, entry: Entry) {
        match self.admit(s.now, &entry) {
            Ok(Admission::Reentrant) => self.queue.push_reentrant(s.now, entry),
            Ok(Admission::Line) => self.queue.push_line(s.now, entry),
            Err(refusal) => s.emit(Command::Refuse { waiter: entry.waiter, refusal }),
        }
    }

    fn admit(&self, now: Moment, entry: &Entry) -> Result<Admission, Refusal> {
        if self.closed {
            return Err(Refusal::ShutDown);
        }
        // An owner that has not yet released the guards of a lost hold assumes that it is protected; a new lease with
        // a new token would hide the loss.
        if self.lost_holds.iter().any(|lost_hold| lost_hold.owner == entry.owner) {
            return Err(Refusal::Lost);
        }
        let hold = self.hold.as_ref().filter(|hold| !hold.ended);
        let joins = match entry.join {
            Some(join) => Some(hold.filter(|hold| hold.id == join.hold()).ok_or(Refusal::Lost)?),
            None => hold.filter(|hold| hold.owner == entry.owner),
        };
        if self.queue.len() >= usize::try_from(self.config.max_waiters).unwrap_or(usize::MAX) {
            return Err(Refusal::TooManyWaiters);
        }
        if let Some(hold) = joins {
            return match entry.terms.allow(hold.id.token) {
                true => Ok(Admission::Reentrant),
                false => Err(Refusal::BelowFloor(hold.id.token)),
            };
        }
        let is_taken = hold.is_some() || self.queue.has_line() || self.is_kept(now);
        if entry.wait_policy == WaitPolicy::NoWait && is_taken {
            return Err(Refusal::Busy);
        }
        if entry.wait_policy == WaitPolicy::NoWait && self.has_enough_to_undo() {
            return Err(Refusal::TooManyUndos);
        }
        Ok(Admission::Line)
    }

    fn on_close(&mut self, s: &mut Ctx<'_>) {
        self.closed = true;
        for waiter in self.queue.drain() {
            s.emit(Command::Refuse { waiter, refusal: Refusal::ShutDown });
        }
        self.lose(s, LostReason::ShutDown);
        self.leave_kept(s.now);
    }
}

enum Admission {
    /// Waits for the lock.
    Line,
    /// Re-enters a hold of its owner.
    Reentrant,
}
