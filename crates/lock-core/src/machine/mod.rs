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
mod cleanup;
mod command;
mod event;
mod fairness;
mod hold;
mod pool;
mod queue;
mod watch;

#[cfg(test)]
mod tests;

pub(crate) use cleanup::MAX_OPEN_UNDOS;
pub use command::{
    Command, Grant, GrantSource, HoldEnd, LostReason, Notice, Refusal, ReleaseAnswer, ReleaseOutcome,
    RenewalOutcome, Unconfirmed,
};
pub use event::{
    Entry, Env, Event, Failure, HoldId, Join, OwnerId, Ticket, WaitPolicy, WaiterId, WatchAnswer,
};
pub use pool::PoolMachine;

use crate::{
    backend::{Released, Reply},
    ids::{FencingToken, LeaseNumber},
    options::Terms,
    time::{Moment, UtcTime},
};
use cleanup::{Cleanups, Outstanding, ReleaseReplies};
use command::Ctx;
use fairness::{Fairness, Others};
use queue::Queue;
use std::time::Duration;
use watch::Watch;

/// The state of one lock name in this process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    config: MachineConfig,
    queue: Queue,
    acquisition: Option<Acquisition>,
    hold: Option<Hold>,
    cleanups: Cleanups,
    lost_holds: Vec<LostHold>,
    watch: Watch,
    backoff: Backoff,
    fairness: Fairness,
    closed: bool,
}

impl Machine {
    /// Creates a machine that holds nothing and waits for nothing.
    #[must_use]
    pub fn new(config: MachineConfig) -> Self {
        Self {
            config,
            queue: Queue::default(),
            acquisition: None,
            hold: None,
            cleanups: Cleanups::default(),
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
            Event::Leave { waiter } => {
                self.queue.remove(waiter);
            }
            Event::Acquired { lease, outcome } => self.on_acquired(s, lease, outcome),
            Event::Renewed { lease, sent, outcome } => self.on_renewed(s, lease, sent, outcome),
            Event::Released { lease, depth_left: 0, outcome } => self.on_released(s, lease, outcome),
            Event::Released { lease, outcome, .. } => self.on_lowered(s, lease, outcome),
            Event::Watched(answer) => self.on_watched(s, answer),
            Event::Unwatched(answer) => self.watch.on_unwatched(s, answer),
            Event::Woken => self.on_woken(s),
            Event::MissedWakes => self.on_missed_wakes(s),
            Event::Suspicion => self.on_suspicion(s),
            Event::Release { hold, ticket } => self.on_release(s, hold, Some(ticket)),
            Event::Drop { hold } => self.on_release(s, hold, None),
            Event::Downgrade { hold } => self.on_downgrade(hold),
            Event::Pin { hold } => self.on_pin(hold),
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
        // While subscribed, the machine is kept in any case.
        let is_idle = self.is_drained() && self.watch.is_off() && !self.closed;
        let forget = self.fairness.remembered_until().filter(|_| is_idle);
        let parts = [
            self.queue.next_alarm(),
            hold,
            self.cleanups.wake_at(),
            self.next_try(),
            self.watch.wake_at(),
            forget,
        ];
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

    /// Returns `true` if replies for this lease, or events of its hold, concern this machine.
    fn knows(&self, lease: LeaseNumber) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.id.lease == lease)
            || self.acquisition.as_ref().is_some_and(|acquisition| acquisition.lease == lease)
            || self.cleanups.contains(lease)
            || self.lost_holds.iter().any(|lost| lost.hold.lease == lease)
    }

    /// Returns the holder in this process: owner, hold, number of guards, deadline.
    #[must_use]
    pub fn holder(&self) -> Option<(OwnerId, HoldId, u32, Moment)> {
        let hold = self.current_hold()?;
        Some((hold.owner, hold.id, hold.guards, hold.ends_at()))
    }

    /// Returns `true` if a renewal failed, or if no renewal has succeeded since an [`Event::Suspicion`]. The hold is
    /// still valid.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.current_hold().is_some_and(|hold| hold.renewal.suspect)
    }

    /// Returns the hold, unless its last guard is released.
    fn current_hold(&self) -> Option<&Hold> {
        self.hold.as_ref().filter(|hold| !hold.ended)
    }

    /// Ends every hold, wait and cleanup whose time has passed.
    fn pass_time(&mut self, s: &mut Ctx<'_>) {
        self.fairness.pass_time(s.now);
        self.pass_time_for_hold(s);
        self.cleanups.pass_time(s);
        let asked_for = self.queue.front().map(|front| front.waiter);
        while let Some(overdue) = self.queue.pop_alarm(s.now) {
            let waiter = overdue.waiter;
            let refusal = self.refuse_overdue(s.now, overdue, asked_for == Some(waiter));
            s.refuse(waiter, refusal);
        }
    }

    /// Sends due operations. Every event ends here, so handlers only change state.
    fn advance(&mut self, s: &mut Ctx<'_>) {
        self.settle_depth(s);
        self.renew_if_due(s);
        self.cleanups.release_due(s);
        self.try_if_due(s);
        // The pool watches for all of its permits.
        if self.config.push && !self.config.pool {
            self.watch.tend(s, self.queue.has_queued(), self.closed);
        }
        self.notice_local_wait(s);
    }

    fn enter(&mut self, s: &mut Ctx<'_>, entry: Entry) {
        match self.admit(s.now, &entry) {
            Ok(Admission::Reentrant) => self.queue.push_reentrant(s.now, entry),
            Ok(Admission::Queued) => self.queue.push_queued(s.now, entry),
            Err(refusal) => s.refuse(entry.waiter, refusal),
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
        let hold = self.current_hold();
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
        // Only its minimum hold may keep the lock taken.
        let is_kept = self.hold.as_ref().is_some_and(|hold| hold.ended && now < hold.kept_until);
        let is_kept = is_kept || self.cleanups.is_any_kept(now);
        let is_taken = hold.is_some() || self.queue.has_queued() || is_kept;
        if entry.wait_policy == WaitPolicy::NoWait && is_taken {
            return Err(Refusal::Busy);
        }
        if entry.wait_policy == WaitPolicy::NoWait && self.cleanups.are_too_many() {
            return Err(Refusal::TooManyUndos);
        }
        Ok(Admission::Queued)
    }

    fn on_watched(&mut self, s: &mut Ctx<'_>, answer: WatchAnswer) {
        self.watch.on_watched(s, answer);
        if self.watch.is_on() {
            // The release may have happened between the busy reply and the acknowledgement.
            self.on_woken(s);
        }
    }

    /// Handles the reply to the release of an abandoned lease, which may have freed the lock.
    fn on_released(
        &mut self,
        s: &mut Ctx<'_>,
        lease: LeaseNumber,
        outcome: Result<Reply<Released>, Failure>,
    ) {
        if let Ok(Reply { outcome: Released::Released { listeners }, .. }) = outcome
            && self.cleanups.contains(lease)
        {
            let subscribed = self.watch.is_on();
            let others = match listeners {
                // Its queue is fair.
                _ if self.config.pool => Others::Subscribed(0),
                // A store that cannot push knows of no waiter in another process.
                _ if !self.config.push => Others::Poll,
                Some(all) => Others::Subscribed(all.saturating_sub(subscribed.into())),
                None => Others::Unknown,
            };
            self.fairness.freed(s, others, subscribed);
        }
        self.cleanups.on_released(s, lease, outcome);
    }

    fn on_close(&mut self, s: &mut Ctx<'_>) {
        self.closed = true;
        for waiter in self.queue.drain() {
            s.refuse(waiter, Refusal::ShutDown);
        }
        self.lose(s, LostReason::ShutDown);
        self.cleanups.leave_kept(s.now);
    }
}

/// The configuration shared by all machines of a factory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MachineConfig {
    /// The maximum number of waiters for one name.
    pub max_waiters: u32,
    /// `true` if the backend pushes wake-ups.
    pub push: bool,
    /// The longest time between two attempts for a waiter whose subscription is not acknowledged.
    pub unsubscribed_poll: Duration,
    /// `true` if every attempt needs its own lease id, as a quorum requires.
    pub lease_per_attempt: bool,
    /// `true` if the hold is a permit of a pool, whose waiters queue in the store.
    pub pool: bool,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            max_waiters: 10_000,
            push: true,
            unsubscribed_poll: Duration::from_secs(5),
            lease_per_attempt: false,
            pool: false,
        }
    }
}

enum Admission {
    /// Waits in the queue for the lock.
    Queued,
    /// Re-enters a hold of its owner.
    Reentrant,
}

/// The attempts to acquire the lock for the front of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Acquisition {
    /// The lease id of the latest attempt.
    lease: LeaseNumber,
    attempt: Option<Attempt>,
    next_try: Moment,
    outstanding: Outstanding,
    /// The waiter of the latest attempt.
    asked_for: Option<WaiterId>,
    /// The time of the latest busy reply; before the first one, the time at which the acquisition began.
    answered_at: Moment,
    /// Set once the store granted an attempt but no waiter could use the grant.
    taken: bool,
    /// The longest lease that the store may have granted to this id.
    longest: Duration,
    /// The place in the queue of a pool.
    place: Option<LeaseNumber>,
    busies: u32,
    lates: u32,
}

/// A request for the lock that is in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Attempt {
    waiter: WaiterId,
    sent: Moment,
    terms: Terms,
    not_after: UtcTime,
    /// Set if a wake-up came after the attempt was sent: a busy reply may be older than the release.
    woken: bool,
    /// Set by a suspicion while the attempt was in flight: if it is granted, its hold is suspect.
    suspect: bool,
}

/// The back-off between acquires of this name. It outlives the waiters: a stream of callers that give up must not
/// become a stream of requests to a server that is down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Backoff {
    failures: u32,
    /// Consecutive split votes.
    contended: u32,
    /// The time before which no acquire is sent.
    resume_at: Moment,
}

/// The hold that guards refer to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Hold {
    id: HoldId,
    owner: OwnerId,
    /// The last token of the range that the acquire reserved for hand-offs.
    last_token: FencingToken,
    terms: Terms,
    /// The end of the hold's validity; never decreases.
    deadline: Moment,
    guards: u32,
    depth: Depth,
    renewal: Renewal,
    outstanding: Outstanding,
    /// Set once the last guard is released; the lease is released in the store once nothing else is in flight.
    ended: bool,
    max_hold_at: Moment,
    /// The time until which the lock stays taken, even after the last guard is released.
    kept_until: Moment,
    /// The time by which the first guard must have been taken.
    claim_by: Moment,
    local_wait: LocalWait,
    /// Set if the last guard was dropped in this step.
    dropped: bool,
    /// The time at which the store granted the lease, perhaps to an earlier owner.
    lease_granted_at: Moment,
    /// Set once the lease was handed on within this process.
    is_handed_on: bool,
}

/// Tracks how long waiters in this process have waited for this hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LocalWait {
    None,
    Since(Moment),
    Noticed,
}

/// A lost hold whose guards have not all been released.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LostHold {
    owner: OwnerId,
    hold: HoldId,
    guards: u32,
}

/// The re-entrancy depth of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Depth {
    /// The depth that the store is known to keep; `None` after an operation whose outcome is unknown.
    stored: Option<u32>,
    change: Option<DepthChange>,
    /// Releases that wait for a reply from the store.
    replies: ReleaseReplies,
    failures: u32,
    lates: u32,
    retry_at: Moment,
}

/// An operation in flight that changes the depth.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum DepthChange {
    /// The re-entries of these waiters.
    Raise {
        to: u32,
        waiters: Vec<WaiterId>,
        sent: Moment,
        terms: Terms,
    },
    Lower {
        to: u32,
    },
}

/// The renewals of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Renewal {
    next_at: Moment,
    in_flight: u32,
    failures: u32,
    suspect: bool,
}
