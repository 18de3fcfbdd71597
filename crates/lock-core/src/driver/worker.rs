//! The task that callers wake: it carries the calls that did not answer at once, and handles what dropped guards and
//! wake-ups left behind. It keeps no time: that is the timekeeper's.
//!
//! There is one worker, with one timekeeper, in each runtime from which the factory is used, nearly always one in all. A single one for
//! all runtimes would leave waiters and holds without a watchdog when its runtime ends, or is not driven (a
//! current-thread runtime outside of `block_on`).

use super::{
    Cell, Driver,
    alarm::Alarm,
    call::Answers,
    cell::Part,
    feed::Io,
    quiet::Active,
    runtime::has_timer,
    seat::{ReleaseSeat, Seat},
    timekeeper::Timekeeping,
    waker_set::wake,
};
use crate::{
    error::{LockError, LockErrorKind},
    machine::Event,
    sync::{Handle, Id, Instant, Mutex, lock, sleep},
};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use std::{pin::Pin, sync::Arc, time::Duration};
use tokio::{sync::Notify, task::coop::unconstrained};

/// Answers delivered in one turn.
const ANSWERS_AT_ONCE: usize = 128;

/// The runtimes that have a worker.
#[derive(Debug, Default)]
pub(super) struct Workers {
    runtimes: Mutex<Vec<Id>>,
    /// Runtimes that had ended when a worker was to begin there. Something may still be polled in them, by
    /// `Handle::block_on`: it would begin a worker, be woken by its end, and begin another one, for ever.
    ended: Mutex<Vec<Id>>,
}

impl Workers {
    pub(super) fn any(&self) -> bool {
        !lock(&self.runtimes).is_empty()
    }
}

/// As long as this lives, a worker runs in its runtime. It is dropped when the worker ends, or with its runtime.
struct Running {
    driver: Arc<Driver>,
    runtime: Id,
    bell: Arc<Notify>,
    alarm: Arc<Alarm>,
    begun: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.begun {
            lock(&self.driver.workers.ended).push(self.runtime);
        }
        lock(&self.driver.workers.runtimes).retain(|id| *id != self.runtime);
        self.driver.inbox.take_bell(&self.bell);
        self.driver.alarms.remove(&self.alarm);
        self.alarm.stop();
        self.driver.inbox.give_up_calls_of(self.runtime);
        // What this one took for itself may now be for another.
        self.driver.inbox.ring();
        // Whoever waits polls again and starts a worker in its own runtime.
        self.driver.wake_everybody();
        if self.driver.is_closed() && !self.driver.workers.any() {
            self.driver.inbox.give_up_calls();
        }
        self.driver.worker_left();
    }
}

impl Running {
    async fn work(&self) {
        let driver = &self.driver;
        let mut calls = Calls::new();
        let mut closed_at: Option<Instant> = None;
        while !self.alarm.is_stopped() {
            // Whatever is left there from now on rings, so nothing is overlooked.
            driver.read_inbox(self.runtime, &calls);
            if driver.is_closed() {
                let closed_at = *closed_at.get_or_insert_with(|| {
                    driver.close_cells();
                    Instant::now()
                });
                driver.tell_if_quiet();
                if driver.is_quiet() || Instant::now() >= closed_at + driver.shutdown_bound() {
                    return;
                }
            }
            let leave = closed_at.map(|at| at + driver.shutdown_bound());
            let left = leave.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            tokio::select! {
                biased;
                // Outside of the budget: when it is spent, every poll of a ready call would answer `Pending`, and each
                // turn would poll all of them.
                Some(answered) = unconstrained(calls.next()), if !calls.is_empty() => {
                    driver.deliver_all(answered, &mut calls);
                }
                () = self.bell.notified() => {}
                () = sleep(left), if leave.is_some() => {}
            }
            tokio::task::coop::consume_budget().await;
        }
    }
}

type Answered = (Answers, Option<Active>);
/// The calls that a task carries.
pub(super) type Calls = FuturesUnordered<Pin<Box<dyn Future<Output = Answered> + Send>>>;

impl Driver {
    /// Starts a worker if none runs in the runtime of the caller; outside of a runtime, any worker will do.
    pub(crate) fn ensure_worker(self: &Arc<Self>) -> Result<(), LockError> {
        let runtime = match Handle::try_current() {
            Ok(runtime) => runtime,
            Err(_) if self.workers.any() => return Ok(()),
            Err(_) => return Err(LockError::new(LockErrorKind::NoRuntime)),
        };
        let id = runtime.id();
        if lock(&self.workers.runtimes).contains(&id) {
            return Ok(());
        }
        if lock(&self.workers.ended).contains(&id) {
            self.inbox.give_up_calls_of(id);
            return Err(LockError::new(LockErrorKind::NoRuntime).detail("this one has ended".to_owned()));
        }
        self.needs_runtime()?;
        {
            let mut runtimes = lock(&self.workers.runtimes);
            if runtimes.contains(&id) {
                return Ok(());
            }
            runtimes.push(id);
        }
        self.spawn_worker(&runtime);
        match lock(&self.workers.ended).contains(&id) {
            true => Err(LockError::new(LockErrorKind::NoRuntime).detail("this one has ended".to_owned())),
            false => Ok(()),
        }
    }

    fn spawn_worker(self: &Arc<Self>, runtime: &Handle) {
        let id = runtime.id();
        let (driver, bell, alarm) = (self.clone(), self.inbox.hang_bell(), Alarm::new(self.has_backstop));
        self.alarms.add(alarm.clone());
        let timekeeping = Timekeeping { driver: driver.clone(), alarm: alarm.clone(), worker: bell.clone() };
        let mut running = Running { driver, runtime: id, bell, alarm, begun: false };
        runtime.spawn(timekeeping.run(id));
        runtime.spawn(async move {
            running.begun = true;
            running.work().await;
        });
    }

    /// There is a runtime, and it has a timer.
    pub(crate) fn needs_runtime(&self) -> Result<(), LockError> {
        match Handle::try_current() {
            Ok(runtime) if lock(&self.workers.runtimes).contains(&runtime.id()) || has_timer() => Ok(()),
            _ => Err(LockError::new(LockErrorKind::NoRuntime)),
        }
    }

    pub(super) fn read_inbox(self: &Arc<Self>, runtime: Id, calls: &Calls) {
        let letters = self.inbox.take(runtime);
        self.deliver(letters.answers);
        for (part, cells) in [(Part::Dropped, letters.dropped), (Part::Woken, letters.woken)] {
            for cell in cells {
                cell.taken_from_inbox(part);
                self.feed(&cell, Event::Tick, Io::Here);
            }
        }
        for call in letters.calls {
            calls.push(call.answer().boxed());
        }
        for (cell, op) in letters.ops {
            calls.push(self.timed(self.call(&cell, op)).answer().boxed());
        }
    }

    /// This answer, and those that are there as well; not too many, so that a turn stays short.
    pub(super) fn deliver_all(self: &Arc<Self>, first: Answered, calls: &mut Calls) {
        let mut next = Some(first);
        for _ in 0..ANSWERS_AT_ONCE {
            let Some((answers, active)) = next else { return };
            self.deliver(answers);
            drop(active);
            next = unconstrained(calls.next()).now_or_never().flatten();
        }
        if let Some((answers, active)) = next {
            self.deliver(answers);
            drop(active);
        }
    }

    pub(super) fn deliver(self: &Arc<Self>, answers: Vec<(Arc<Cell>, Event)>) {
        for (cell, event) in answers {
            self.feed(&cell, event, Io::Here);
        }
    }

    fn wake_everybody(&self) {
        for cell in self.cells.all() {
            let mut wakers = Vec::new();
            let hold = {
                let mut state = lock(&cell.state);
                for seat in state.seats.values_mut() {
                    if let Seat::Waiting(waker) = seat {
                        wakers.extend(waker.take());
                    }
                }
                for seat in state.releases.values_mut() {
                    if let ReleaseSeat::Waiting(waker) = seat {
                        wakers.extend(waker.take());
                    }
                }
                state.hold.clone()
            };
            wakers.into_iter().for_each(wake);
            if let Some(hold) = hold {
                hold.wake_waiting();
            }
        }
    }
}
