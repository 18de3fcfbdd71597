//! A timekeeper's timer. Callers move the timer and never wake the task that waits for it. A task that is woken
//! from a runtime's thread may be placed in that thread's LIFO slot, from which no other thread steals, until the
//! thread finishes its current task. A caller that then blocks its thread would delay every renewal in the process.

use super::{
    backstop::{self, GRACE, Overdue},
    runtime::MAX_SLEEP,
    waker_set::wake,
};
use crate::{
    sync::{Instant, Mutex, Sleep, lock, rank, sleep},
    time::Moment,
};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The resolution of tokio's timers. A timer that is due sooner would fire in place and wake the task from the caller's
/// thread.
const RESOLUTION: Duration = Duration::from_millis(1);

/// The duration of an alarm that is not set: 30 years, which tokio also uses for the far future.
const IDLE: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The alarms of a factory's timekeepers.
#[derive(Debug, Default)]
pub(super) struct Alarms(Mutex<rank::Alarms, Vec<Arc<Alarm>>>);

impl Alarms {
    pub(super) fn add(&self, alarm: Arc<Alarm>) {
        lock(&self.0).push(alarm);
    }

    pub(super) fn remove(&self, alarm: &Arc<Alarm>) {
        lock(&self.0).retain(|other| !Arc::ptr_eq(other, alarm));
    }

    /// Makes every timekeeper run at this time or earlier.
    pub(super) fn move_to(&self, at: Moment, now: Moment) {
        lock(&self.0).iter().for_each(|alarm| alarm.move_to(at, now));
    }
}

pub(super) struct Alarm(Mutex<rank::Alarm, State>);

struct State {
    /// The due time by the timer's clock, which stops while the computer is suspended. By the factory's clock, it
    /// may have passed although the timer has not fired.
    due: Instant,
    /// `true` if the alarm has been moved since the latest turn of the timekeeper began.
    is_set: bool,
    sleep: Pin<Box<Sleep>>,
    /// The timekeeper's waker.
    waker: Option<Waker>,
    /// The real time by which a turn must have begun. Only set with a backstop.
    overdue_at: Option<std::time::Instant>,
    has_backstop: bool,
    stopped: bool,
}

impl Alarm {
    /// Creates an alarm that is not set. Its timer belongs to the caller's runtime.
    pub(super) fn new(has_backstop: bool) -> Arc<Self> {
        let (due, sleep) = (Instant::now() + IDLE, Box::pin(sleep(IDLE)));
        let (is_set, waker, overdue_at, stopped) = (false, None, None, false);
        let state = State { due, is_set, sleep, waker, overdue_at, has_backstop, stopped };
        let alarm = Arc::new(Self(Mutex::new(state)));
        if has_backstop {
            let overdue: Arc<dyn Overdue> = alarm.clone();
            backstop::watch(Arc::downgrade(&overdue));
        }
        alarm
    }

    /// Begins a turn of the timekeeper: every later call to [`move_to`](Self::move_to) sets the alarm for the next
    /// turn.
    pub(super) fn begin_turn(&self) {
        let mut state = lock(&self.0);
        state.due = Instant::now() + IDLE;
        state.is_set = false;
        state.overdue_at = None;
        let due = state.due;
        state.sleep.as_mut().reset(due);
    }

    /// Sets the alarm to `at`, or to [`MAX_SLEEP`] from now if that is earlier. It is never moved to a later time.
    pub(super) fn move_to(&self, at: Moment, now: Moment) {
        let after = at.since(now).min(MAX_SLEEP);
        let mut state = lock(&self.0);
        // A set alarm is due by then at the latest. Most callers request no earlier time, so this saves reading the
        // clock.
        if after == MAX_SLEEP && state.is_set {
            return;
        }
        let due = Instant::now() + after.max(RESOLUTION);
        if due >= state.due {
            return;
        }
        state.is_set = true;
        state.due = due;
        state.sleep.as_mut().reset(due);
        if state.has_backstop {
            let overdue_at = std::time::Instant::now() + after + GRACE;
            state.overdue_at = Some(overdue_at);
            drop(state);
            backstop::look_at(overdue_at);
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        lock(&self.0).stopped
    }

    /// Stops the alarm and wakes its timekeeper, which then ends.
    pub(super) fn stop(&self) {
        let waker = {
            let mut state = lock(&self.0);
            state.stopped = true;
            state.overdue_at = None;
            state.waker.take()
        };
        waker.into_iter().for_each(wake);
    }

    /// Resolves to `true` when the alarm is due, and to `false` if it was stopped.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let waker = Some(cx.waker().clone());
        let mut state = lock(&self.0);
        let before = std::mem::replace(&mut state.waker, waker);
        let polled = match state.stopped {
            true => Poll::Ready(false),
            false => state.sleep.as_mut().poll(cx).map(|()| true),
        };
        drop(state);
        drop(before);
        polled
    }
}

impl Overdue for Alarm {
    fn wake_if_overdue(&self, now: std::time::Instant) -> Option<std::time::Instant> {
        let (waker, look_at) = {
            let mut state = lock(&self.0);
            let overdue_at = state.overdue_at?;
            if now < overdue_at {
                return Some(overdue_at);
            }
            // If the runtime is not driven, its task is woken no more often than this.
            let again = now + MAX_SLEEP;
            state.overdue_at = Some(again);
            (state.waker.clone(), again)
        };
        waker.into_iter().for_each(wake);
        Some(look_at)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let has_backstop = lock(&self.0).has_backstop;
        if has_backstop {
            // The backstop thread can end if this was the last alarm.
            backstop::look_at(std::time::Instant::now());
        }
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("stopped", &lock(&self.0).stopped).finish_non_exhaustive()
    }
}
