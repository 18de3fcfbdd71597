//! Driver, watchdog and releaser in one task: it carries the calls that did not answer at once, and wakes
//! machines when they asked for it.
//!
//! There is one worker in each runtime from which the factory is used, nearly always one in all. A single one for
//! all runtimes would leave waiters and holds without a watchdog when its runtime ends, or is not driven (a
//! current-thread runtime outside of `block_on`).

use super::{
    Cell, Driver,
    call::Answers,
    cell::Part,
    feed::Io,
    quiet::Active,
    seat::{ReleaseSeat, Seat},
};
#[cfg(shuttle)]
use crate::sync::{Plant, planted};
use crate::{
    error::{ErrorKind, LockError},
    machine::Event,
    sync::{Handle, Id, Instant, Mutex, lock, sleep},
};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use std::{pin::Pin, sync::Arc, time::Duration};
use tokio::{sync::Notify, task::coop::unconstrained};

/// Sleeps are no longer than this while something is scheduled, so that a suspended machine is noticed soon
/// after it wakes up: tokio's timers stand still during suspend.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

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
    begun: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.begun {
            lock(&self.driver.workers.ended).push(self.runtime);
        }
        lock(&self.driver.workers.runtimes).retain(|id| *id != self.runtime);
        self.driver.inbox.take_bell(&self.bell);
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

type Answered = (Answers, Option<Active>);
type Calls = FuturesUnordered<Pin<Box<dyn Future<Output = Answered> + Send>>>;

/// Whether this is inside of a runtime with a timer. One without says so only by a panic.
pub(super) fn has_timer() -> bool {
    Handle::try_current().is_ok() && std::panic::catch_unwind(|| drop(sleep(Duration::ZERO))).is_ok()
}

/// For who waits for the end of a hold whose factory is gone, and every worker with it.
pub(super) async fn rest(time: Duration) {
    sleep(time.min(LONGEST_SLEEP)).await;
}

impl Driver {
    /// Starts a worker if none runs in the runtime of the caller; outside of a runtime, any worker will do.
    pub(crate) fn ensure_worker(self: &Arc<Self>) -> Result<(), LockError> {
        let runtime = match Handle::try_current() {
            Ok(runtime) => runtime,
            Err(_) if self.workers.any() => return Ok(()),
            Err(_) => return Err(LockError::new(ErrorKind::NoRuntime)),
        };
        let id = runtime.id();
        if lock(&self.workers.runtimes).contains(&id) {
            return Ok(());
        }
        if lock(&self.workers.ended).contains(&id) {
            self.inbox.give_up_calls_of(id);
            return Err(LockError::new(ErrorKind::NoRuntime).detail("this one has ended".to_owned()));
        }
        self.needs_runtime()?;
        {
            let mut runtimes = lock(&self.workers.runtimes);
            if runtimes.contains(&id) {
                return Ok(());
            }
            runtimes.push(id);
        }
        let bell = self.inbox.hang_bell();
        let mut running = Running { driver: self.clone(), runtime: id, bell, begun: false };
        runtime.spawn(async move {
            running.begun = true;
            running.driver.work(id, &running.bell).await;
        });
        Ok(())
    }

    /// There is a runtime, and it has a timer.
    pub(crate) fn needs_runtime(&self) -> Result<(), LockError> {
        match Handle::try_current() {
            Ok(runtime) if lock(&self.workers.runtimes).contains(&runtime.id()) || has_timer() => Ok(()),
            _ => Err(LockError::new(ErrorKind::NoRuntime)),
        }
    }

    async fn work(self: &Arc<Self>, runtime: Id, bell: &Notify) {
        let mut calls = Calls::new();
        let mut drift = self.wall_drift();
        let mut leave_by: Option<Instant> = None;
        loop {
            drift = self.notice_jump(drift);
            self.time_out_calls(runtime);
            self.tick_due_cells();
            // Whatever is left there from now on rings, so nothing is overlooked.
            self.read_inbox(runtime, &calls);
            if self.is_closed() {
                let bound = *leave_by.get_or_insert_with(|| {
                    self.close_cells();
                    Instant::now() + self.longest_operation() * 2
                });
                self.tell_if_quiet();
                if self.is_quiet() || Instant::now() >= bound {
                    return;
                }
            }
            tokio::select! {
                biased;
                // Outside of the budget: when it is spent, every poll of a ready call would answer `Pending`, and each
                // turn would poll all of them.
                Some(answered) = unconstrained(calls.next()), if !calls.is_empty() => {
                    self.deliver_all(answered, &mut calls);
                }
                () = bell.notified() => {}
                () = sleep(self.sleep_for(leave_by)) => {}
            }
            tokio::task::coop::consume_budget().await;
        }
    }

    fn read_inbox(self: &Arc<Self>, runtime: Id, calls: &Calls) {
        let letters = self.inbox.take(runtime);
        self.deliver(letters.answers);
        for (part, cells) in [(Part::Dropped, letters.dropped), (Part::Woken, letters.woken)] {
            for cell in cells {
                #[cfg(shuttle)]
                if planted(Plant::UnlistsLate) {
                    self.feed(&cell, Event::Tick, Io::Here);
                    cell.taken_from_inbox(part);
                    continue;
                }
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
        for call in self.renewal_calls(letters.renewals) {
            calls.push(self.timed(call).answer().boxed());
        }
    }

    /// This answer, and those that are there as well; not too many, so that a turn stays short.
    fn deliver_all(self: &Arc<Self>, first: Answered, calls: &mut Calls) {
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

    fn tick_due_cells(self: &Arc<Self>) {
        let due = lock(&self.schedule).take_due(self.clock.now());
        for cell in due {
            lock(&cell.state).scheduled = None;
            self.feed(&cell, Event::Tick, Io::Here);
        }
    }

    fn sleep_for(&self, leave_by: Option<Instant>) -> Duration {
        let now = self.clock.now();
        let tick = lock(&self.schedule).next();
        let timeout = lock(&self.deadlines).next();
        let next = tick.into_iter().chain(timeout).min().map(|at| at.since(now).min(LONGEST_SLEEP));
        let leave = leave_by.map(|at| at.saturating_duration_since(Instant::now()));
        next.into_iter().chain(leave).min().unwrap_or(Duration::MAX)
    }

    /// How far the wall clock is ahead of the clock that leases are measured with.
    fn wall_drift(&self) -> i128 {
        i128::from(self.clock.wall().as_micros()) - i128::from(self.clock.now().as_micros())
    }

    /// A wall clock that jumped ahead by more than the margin may mean that this machine slept.
    fn notice_jump(&self, before: i128) -> i128 {
        let drift = self.wall_drift();
        let margin = self.options.terms().map_or(Duration::ZERO, |terms| terms.margin);
        if drift - before > i128::try_from(margin.as_micros()).unwrap_or(i128::MAX) {
            self.suspect_all();
        }
        drift
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
            wakers.into_iter().for_each(std::task::Waker::wake);
            if let Some(hold) = hold {
                hold.ring();
            }
        }
    }
}
