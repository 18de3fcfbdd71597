//! Where a future waits for its verdict, and where a release waits for its answer.

use super::{Driver, cell::Cell, feed::Io, hold_state::HoldState};
use crate::{
    backend::BackendError,
    error::{LockError, LockErrorKind},
    machine::{
        Entry, Event, HoldId, OwnerId, Refusal, ReleaseAnswer, Ticket, Unconfirmed, WaitPolicy, WaiterId,
    },
    name::LockName,
    observer::{AcquireOutcome, LockEvent},
    owner::Owner,
    sync::{atomic::Ordering, lock},
    terms::Terms,
    time::Moment,
};
use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// The seat of a waiting future.
#[derive(Debug)]
pub(super) enum Seat {
    Waiting(Option<Waker>),
    /// Since then.
    Ready(Verdict, Moment),
}

/// What became of a waiter.
#[derive(Debug)]
pub(crate) enum Verdict {
    Granted(Arc<HoldState>),
    Refused(Refusal, Option<Arc<BackendError>>),
}

impl Seat {
    /// Gives the verdict; the waker is for after the mutex is let go.
    pub(super) fn decide(&mut self, verdict: Verdict, now: Moment) -> Option<Waker> {
        match std::mem::replace(self, Self::Ready(verdict, now)) {
            Self::Waiting(waker) => waker,
            Self::Ready(..) => None,
        }
    }
}

/// A future that has entered. Dropping it is leaving.
#[derive(Debug)]
pub(crate) struct Seated {
    driver: Arc<Driver>,
    cell: Arc<Cell>,
    waiter: WaiterId,
    entered: Moment,
    done: bool,
}

/// Who enters, and how.
#[derive(Debug, Clone)]
pub(crate) struct Entering {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    pub(crate) owned: bool,
    pub(crate) terms: Terms,
    pub(crate) wait_policy: WaitPolicy,
    pub(crate) join: Option<HoldId>,
}

impl Driver {
    /// Takes a seat and tells the machine.
    pub(crate) fn enter(self: &Arc<Self>, who: Entering) -> Result<Seated, LockError> {
        if self.is_closed() {
            return Err(LockError::new(LockErrorKind::ShutDown).of(&who.name));
        }
        self.ensure_worker()?;
        let waiting = self.waiting.fetch_add(1, Ordering::AcqRel);
        if waiting >= self.limits.waiters {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            let most = self.limits.waiters;
            let detail = format!("this factory has {most} waiters already");
            return Err(LockError::new(LockErrorKind::TooManyWaiters).of(&who.name).detail(detail));
        }
        let entered = self.clock.now();
        self.observe(&LockEvent::WaitStarted { name: &who.name });
        // From here on a shutdown waits for this one; one that is over already must not find its store in use again.
        let _active = self.active();
        if self.is_closed() {
            self.wait_ended(&who.name, entered, AcquireOutcome::Error);
            return Err(LockError::new(LockErrorKind::ShutDown).of(&who.name));
        }
        loop {
            let cell = self.cell(&who.name);
            let entry = {
                let mut state = lock(&cell.state);
                if state.dead {
                    continue;
                }
                let waiter = WaiterId(state.fresh_id());
                state.seats.insert(waiter, Seat::Waiting(None));
                let owner: OwnerId = who.owner.id();
                let Entering { owned, ref terms, wait_policy, join, .. } = who;
                Entry { waiter, owner, owned, terms: terms.clone(), wait_policy, join }
            };
            let seated = Seated {
                driver: self.clone(),
                cell: cell.clone(),
                waiter: entry.waiter,
                entered,
                done: false,
            };
            self.feed(&cell, Event::Enter(entry), Io::Here);
            if self.is_closed() {
                // The shutdown may have passed this cell before it was there.
                self.feed(&cell, Event::Shutdown, Io::Here);
                self.ensure_worker()?;
            }
            return Ok(seated);
        }
    }

    fn wait_ended(&self, name: &LockName, entered: Moment, outcome: AcquireOutcome) {
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        let waited = self.clock.now().since(entered);
        self.observe(&LockEvent::WaitEnded { name, outcome, waited });
    }
}

impl Seated {
    pub(crate) fn cell(&self) -> &Arc<Cell> {
        &self.cell
    }

    pub(crate) fn poll_verdict(&mut self, cx: &mut Context<'_>) -> Poll<Result<Verdict, LockError>> {
        match self.look_at_seat(cx) {
            Some(verdict) => Poll::Ready(Ok(self.finished(verdict))),
            // The runtime that carried the worker may be gone, and nobody else would notice.
            None => match self.driver.ensure_worker() {
                Ok(()) => Poll::Pending,
                Err(nobody) => Poll::Ready(Err(nobody.of(&self.cell.name))),
            },
        }
    }

    fn look_at_seat(&self, cx: &Context<'_>) -> Option<Verdict> {
        // Cloned before and dropped after the mutex is held: a waker is other people's code.
        let mut waker = Some(cx.waker().clone());
        let mut state = lock(&self.cell.state);
        if let Seat::Waiting(waiting) = state.seats.get_mut(&self.waiter)? {
            std::mem::swap(waiting, &mut waker);
            drop(state);
            return None;
        }
        let seat = state.seats.remove(&self.waiter)?;
        drop(state);
        match seat {
            Seat::Ready(verdict, _) => Some(verdict),
            Seat::Waiting(_) => None,
        }
    }

    fn finished(&mut self, verdict: Verdict) -> Verdict {
        self.done = true;
        let outcome = match &verdict {
            Verdict::Granted(_) => AcquireOutcome::Acquired,
            Verdict::Refused(Refusal::Busy, _) => AcquireOutcome::Contended,
            Verdict::Refused(Refusal::Timeout(_), _) => AcquireOutcome::Timeout,
            Verdict::Refused(..) => AcquireOutcome::Error,
        };
        self.leave_with(outcome);
        verdict
    }

    fn leave_with(&self, outcome: AcquireOutcome) {
        self.driver.wait_ended(&self.cell.name, self.entered, outcome);
        self.driver.forget_if_idle(&self.cell);
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let seat = lock(&self.cell.state).seats.remove(&self.waiter);
        match seat {
            // Granted, but nobody will take it: given back as a dropped guard is.
            Some(Seat::Ready(Verdict::Granted(hold), _)) => self.driver.guard_dropped(&self.cell, hold.id()),
            Some(Seat::Waiting(_)) => {
                self.driver.feed(&self.cell, Event::Leave { waiter: self.waiter }, Io::Worker);
            }
            _ => {}
        }
        self.leave_with(AcquireOutcome::Cancelled);
    }
}

#[derive(Debug)]
pub(super) enum ReleaseSeat {
    Waiting(Option<Waker>),
    Answered(ReleaseAnswer),
}

/// A release that waits for its answer. Dropping it leaves the release to go on by itself.
#[derive(Debug)]
pub(crate) struct Releasing {
    driver: Arc<Driver>,
    cell: Arc<Cell>,
    ticket: Ticket,
}

impl Driver {
    pub(crate) fn release(self: &Arc<Self>, cell: &Arc<Cell>, hold: HoldId) -> Releasing {
        // Before the first poll of the call, which stays in this runtime.
        let _ = self.ensure_worker();
        cell.guard_released();
        self.inbox.guard_gone();
        let ticket = {
            let mut state = lock(&cell.state);
            let ticket = Ticket(state.fresh_id());
            state.releases.insert(ticket, ReleaseSeat::Waiting(None));
            ticket
        };
        self.feed(cell, Event::Release { hold, ticket }, Io::Here);
        Releasing { driver: self.clone(), cell: cell.clone(), ticket }
    }

    /// A guard goes without a word: no allocation, no IO, no spawn. The worker does the rest.
    pub(crate) fn guard_dropped(self: &Arc<Self>, cell: &Arc<Cell>, hold: HoldId) {
        self.leave_drop(cell, hold);
        if self.is_closed() && !self.workers.any() {
            // After a shutdown everything was given back, and only the count of guards is left.
            self.feed(cell, Event::Tick, Io::Nobody);
        }
    }
}

impl Future for Releasing {
    type Output = ReleaseAnswer;

    fn poll(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ReleaseAnswer> {
        let mut waker = Some(cx.waker().clone());
        let answer = match lock(&self.cell.state).releases.get_mut(&self.ticket) {
            Some(ReleaseSeat::Waiting(waiting)) => {
                std::mem::swap(waiting, &mut waker);
                None
            }
            Some(ReleaseSeat::Answered(answer)) => Some(*answer),
            None => Some(Err(Unconfirmed)),
        };
        drop(waker);
        match answer {
            Some(answer) => Poll::Ready(answer),
            None if self.driver.ensure_worker().is_err() => Poll::Ready(Err(Unconfirmed)),
            None => Poll::Pending,
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        let seat = lock(&self.cell.state).releases.remove(&self.ticket);
        drop(seat);
        self.driver.forget_if_idle(&self.cell);
    }
}
