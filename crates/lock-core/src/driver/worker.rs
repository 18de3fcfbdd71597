//! Driver, watchdog and releaser in one task: it carries the calls that did not answer at once, and wakes
//! machines when they asked for it.

use super::{
    Driver,
    feed::Io,
    seat::{ReleaseSeat, SeatState},
};
use crate::{
    error::{ErrorKind, LockError},
    machine::Event,
    sync::lock,
};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Sleeps are no longer than this while something is scheduled, so that a suspended machine is noticed soon
/// after it wakes up: tokio's timers stand still during suspend.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct WorkerState {
    running: AtomicBool,
    finished: Notify,
}

impl WorkerState {
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// Completes when no worker runs.
    pub(super) async fn finished(&self) {
        loop {
            let mut finished = std::pin::pin!(self.finished.notified());
            finished.as_mut().enable();
            if !self.is_running() {
                return;
            }
            finished.await;
        }
    }
}

/// As long as this lives, the worker runs. It is dropped when the worker ends, or with its runtime.
struct Running(Arc<Driver>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.worker.running.store(false, Ordering::Release);
        self.0.worker.finished.notify_waiters();
        // Whoever waits polls again and starts a worker in its own runtime.
        self.0.wake_everybody();
    }
}

type Calls = FuturesUnordered<Pin<Box<dyn Future<Output = Vec<(Arc<super::Cell>, Event)>> + Send>>>;

impl Driver {
    /// Starts the worker if none runs: at the first acquire, and again when its runtime is gone.
    pub(crate) fn ensure_worker(self: &Arc<Self>) -> Result<(), LockError> {
        if self.worker.is_running() {
            return Ok(());
        }
        let runtime = self.needs_runtime()?;
        if !self.worker.running.swap(true, Ordering::AcqRel) {
            let running = Running(self.clone());
            runtime.spawn(async move { running.0.work().await });
        }
        Ok(())
    }

    /// The runtime of the caller, if it has a timer.
    pub(crate) fn needs_runtime(&self) -> Result<tokio::runtime::Handle, LockError> {
        let no_runtime = || LockError::new(ErrorKind::NoRuntime);
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| no_runtime())?;
        // A runtime without a timer says so only by a panic.
        std::panic::catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).map_err(|_| no_runtime())?;
        Ok(runtime)
    }

    async fn work(self: &Arc<Self>) {
        let mut calls = Calls::new();
        let mut drift = self.wall_drift();
        let mut leave_by: Option<Instant> = None;
        loop {
            drift = self.notice_jump(drift);
            self.tick_due_cells();
            // Whatever is left there from now on rings, so nothing is overlooked.
            self.read_inbox(&calls);
            if self.is_closed() {
                let bound = *leave_by.get_or_insert_with(|| {
                    self.close_cells();
                    Instant::now() + self.operation_timeout() * 2
                });
                if self.is_quiet() && calls.is_empty() || Instant::now() >= bound {
                    break;
                }
            }
            tokio::select! {
                biased;
                Some(answers) = calls.next(), if !calls.is_empty() => {
                    self.deliver(answers);
                    while let Some(Some(answers)) = calls.next().now_or_never() {
                        self.deliver(answers);
                    }
                }
                () = self.inbox.wait() => {}
                () = tokio::time::sleep(self.sleep_for(leave_by)) => {}
            }
            tokio::task::coop::consume_budget().await;
        }
        drop(calls);
        lock(&self.schedule).clear();
        drop(self.inbox.take());
    }

    fn read_inbox(self: &Arc<Self>, calls: &Calls) {
        let letters = self.inbox.take();
        self.deliver(letters.answers);
        for cell in letters.cells {
            cell.taken_from_inbox();
            self.feed(&cell, Event::Tick, Io::Here);
        }
        for call in letters.calls {
            calls.push(call.answer().boxed());
        }
        for (cell, op) in letters.ops {
            calls.push(self.call(&cell, op).answer().boxed());
        }
        for chunk in letters.renewals.chunks(RENEWALS_AT_ONCE) {
            calls.push(self.renewal_call(chunk.to_vec()).answer().boxed());
        }
    }

    fn deliver(self: &Arc<Self>, answers: Vec<(Arc<super::Cell>, Event)>) {
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
        let next = lock(&self.schedule).next().map(|at| at.since(now).min(LONGEST_SLEEP));
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
            {
                let mut state = lock(&cell.state);
                for seat in state.seats.values_mut() {
                    if let SeatState::Waiting(waker) = &mut seat.state {
                        wakers.extend(waker.take());
                    }
                }
                for seat in state.releases.values_mut() {
                    if let ReleaseSeat::Waiting(waker) = seat {
                        wakers.extend(waker.take());
                    }
                }
                if let Some(hold) = &state.hold {
                    hold.ring();
                }
            }
            wakers.into_iter().for_each(std::task::Waker::wake);
        }
    }
}

/// So that one slow store does not have to carry a batch of any size.
const RENEWALS_AT_ONCE: usize = 500;
