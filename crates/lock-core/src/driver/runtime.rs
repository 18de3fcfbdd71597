//! The timers of the current runtime, if there is one.

use crate::{
    sync::{Handle, Id, Sleep, sleep},
    time::Moment,
};
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::task::coop::poll_proceed;

/// The maximum length of a sleep that a task depends on. tokio's timers stop while the computer is suspended, and the
/// task must soon notice that it has resumed.
pub(super) const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Returns `true` inside a runtime with a timer. A runtime without a timer reveals this only by panicking.
pub fn has_timer() -> bool {
    Handle::try_current().is_ok() && std::panic::catch_unwind(|| drop(sleep(Duration::ZERO))).is_ok()
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

/// Wakes the polling task at a deadline that may move, in any runtime.
#[derive(Default)]
pub(super) struct DeadlineTimer {
    armed: Option<(Id, Moment, Pin<Box<Sleep>>)>,
}

impl DeadlineTimer {
    /// Completes when `after` has passed since this deadline was first polled in this runtime. Stays pending without a
    /// timer.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, deadline: Moment, after: Duration) -> Poll<()> {
        let Ok(runtime) = Handle::try_current() else { return Poll::Pending };
        let here = |(id, at, _): &(Id, Moment, _)| (*id, *at) == (runtime.id(), deadline);
        let armed = match self.armed.take().filter(here) {
            Some(armed) => armed,
            None if has_timer() => (runtime.id(), deadline, Box::pin(sleep(after))),
            None => return Poll::Pending,
        };
        let (.., sleep) = self.armed.insert(armed);
        let fired = sleep.as_mut().poll(cx);
        if fired.is_ready() {
            self.armed = None;
        }
        fired
    }
}
