//! The runtime in which a factory does the work that nobody awaits, and the timers of the caller's.

use crate::{
    error::{LockError, no_runtime},
    sync::{
        Handle, Mutex,
        atomic::{AtomicBool, Ordering},
        enter, lock, rank, sleep,
    },
    worker::Worker,
};
use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::task::coop::poll_proceed;

/// The choice of the runtime for that work.
#[derive(Debug)]
pub(crate) enum Place {
    /// The keeper, which all factories of the process share.
    Keeper,
    Worker(Worker),
    /// The runtime in which the factory is first used, or used again after that one has ended. For factories whose
    /// clock is not real time.
    InUse,
}

#[derive(Debug)]
pub(super) struct Home {
    place: Place,
    /// The worker of the factory's task, while that task runs.
    current: Mutex<rank::Home, Option<Worker>>,
    /// `true` while the task runs.
    running: AtomicBool,
}

impl Home {
    pub(super) fn new(place: Place) -> Self {
        Self { place, current: Mutex::default(), running: AtomicBool::new(false) }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }

    /// Returns the runtime of the task, while it runs.
    pub(super) fn runtime(&self) -> Option<Handle> {
        self.current().map(|worker| worker.handle().clone())
    }

    /// Returns the worker of the task, which keeps its thread, while the task runs.
    pub(super) fn current(&self) -> Option<Worker> {
        lock(&self.current).clone()
    }

    /// Begins the task, and returns the runtime in which the caller spawns it. Returns `None` if it is already running.
    pub(super) fn begin(&self) -> Result<Option<Handle>, LockError> {
        let mut current = lock(&self.current);
        if current.is_some() {
            return Ok(None);
        }
        let worker = self.chosen()?;
        let runtime = worker.handle().clone();
        *current = Some(worker);
        self.running.store(true, Ordering::SeqCst);
        Ok(Some(runtime))
    }

    /// Ends the task, which is finished, or whose runtime has ended.
    pub(super) fn end(&self) {
        let worker = {
            let mut current = lock(&self.current);
            self.running.store(false, Ordering::SeqCst);
            current.take()
        };
        // Only signals a thread that is no longer needed.
        drop(worker);
    }

    /// Returns the worker for this factory's tasks.
    ///
    /// # Errors
    /// [`NoRuntime`](crate::LockErrorKind::NoRuntime) if the keeper cannot be started, if the worker's runtime has no timer, or if the
    /// factory has its own clock and is not used in a runtime with a timer.
    pub(super) fn chosen(&self) -> Result<Worker, LockError> {
        let worker = match &self.place {
            Place::Keeper => return Worker::keeper().map_err(|error| no_runtime(error.to_string())),
            Place::Worker(worker) => worker.clone(),
            Place::InUse => {
                let outside = "a factory with its own clock works in the runtime in which it is used";
                Worker::on(Handle::try_current().map_err(|_| no_runtime(outside))?)
            }
        };
        match enter(worker.handle(), has_timer) {
            true => Ok(worker),
            false => Err(no_runtime("the runtime has no timer: build it with `enable_time`")),
        }
    }
}

/// The maximum length of a sleep that a task depends on. tokio's timers stop while the computer is suspended, and the
/// task must soon notice that it has resumed.
pub(super) const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Returns `true` inside a runtime with a timer. A runtime without a timer reveals this only by panicking.
pub fn has_timer() -> bool {
    Handle::try_current().is_ok() && std::panic::catch_unwind(|| drop(sleep(Duration::ZERO))).is_ok()
}

/// Returns `true` inside a runtime with a timer that has not ended, which only the first poll of a timer reveals. That
/// poll may wake the runtime, so this is for calls that are rare.
pub(super) fn has_running_timer() -> bool {
    let sleeps = || pin!(sleep(Duration::ZERO)).poll(&mut Context::from_waker(Waker::noop())).is_ready();
    has_timer() && std::panic::catch_unwind(sleeps).is_ok()
}

/// More than tokio's cooperative budget, the 128 steps of a task between two yields.
const MANY_STEPS: usize = 1_024;

/// Returns `true` while a runtime polls a task on this thread. tokio reveals this only by panicking, so this function
/// checks whether the cooperative budget runs out, which happens only in tasks. The budget is restored afterwards.
pub(crate) fn is_async_context() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let cx = &mut Context::from_waker(Waker::noop());
    let mut steps = Vec::with_capacity(MANY_STEPS);
    let ends = loop {
        match poll_proceed(cx) {
            Poll::Pending => break true,
            Poll::Ready(_) if steps.len() == MANY_STEPS => break false,
            Poll::Ready(step) => steps.push(step),
        }
    };
    // In reverse order, since each step restores the budget that it found.
    while steps.pop().is_some() {}
    ends
}
