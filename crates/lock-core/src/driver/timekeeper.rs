//! The watchdog: renews leases, ends waits and calls whose time is over, and tells of losses.
//!
//! No caller wakes this task; callers move its [`Alarm`], and the runtime's timer wakes it. So a thread that blocks
//! after it released or acquired a lock delays no renewal of another. Such a thread may hold up the worker; then this task
//! reads the worker's inbox.

use super::{Driver, alarm::Alarm, feed::Io, inbox::Letters, worker::Calls};
use crate::{
    machine::Event,
    sync::{Id, lock},
    time::Moment,
};
use futures_util::{FutureExt, StreamExt};
use std::{future::poll_fn, sync::Arc, time::Duration};
use tokio::{sync::Notify, task::coop::unconstrained};

/// A step of the wall clock that is taken for the resumption of a suspended machine is no smaller: readings of two clocks
/// differ by some microseconds at any time.
const MIN_JUMP: Duration = Duration::from_millis(10);

/// A worker that has not read its inbox after this time is held up by the thread on which it is to run.
const HELD_UP: Duration = Duration::from_millis(20);

/// As long as this lives, somebody keeps time in its runtime.
pub(super) struct Timekeeping {
    pub(super) driver: Arc<Driver>,
    pub(super) alarm: Arc<Alarm>,
    pub(super) worker: Arc<Notify>,
}

impl Drop for Timekeeping {
    fn drop(&mut self) {
        // The worker notices and ends as well, so that the next caller starts both.
        self.alarm.stop();
        self.worker.notify_one();
    }
}

impl Timekeeping {
    pub(super) async fn run(self, runtime: Id) {
        let driver = &self.driver;
        let mut calls = Calls::new();
        let mut drift = driver.wall_drift();
        loop {
            self.alarm.begin_turn();
            drift = driver.notice_jump(drift);
            driver.time_out_calls(runtime);
            driver.tick_due_cells();
            for call in driver.renewal_calls(driver.inbox.take_renewals()) {
                calls.push(driver.timed(call).answer().boxed());
            }
            // The worker is held up, or about to read this itself: whoever comes first has it.
            driver.read_inbox(runtime, &calls);
            if driver.is_closed() {
                // A worker may have looked while this task was at work, and ends only when nothing is going on. It need not be
                // the worker of this runtime: that one may have ended before, and another begun.
                driver.inbox.ring();
            }
            if let Some(next) = driver.next_due() {
                self.alarm.move_to(next, driver.clock.now());
            }
            tokio::select! {
                biased;
                // Outside of the budget, as in the worker.
                Some(answered) = unconstrained(calls.next()), if !calls.is_empty() => {
                    driver.deliver_all(answered, &mut calls);
                }
                due = poll_fn(|cx| self.alarm.poll(cx)) => if !due {
                    return;
                }
            }
            tokio::task::coop::consume_budget().await;
        }
    }
}

impl Driver {
    /// Leaves something for the worker. If a blocked thread holds the worker up, the timekeeper stands in for it.
    pub(super) fn leave(&self, letter: impl FnOnce(&mut Letters)) {
        self.inbox.put(letter);
        let now = self.clock.now();
        self.alarms.move_to(now + HELD_UP, now);
    }

    fn tick_due_cells(self: &Arc<Self>) {
        let due = lock(&self.schedule).take_due(self.clock.now());
        for cell in due {
            lock(&cell.state).scheduled = None;
            self.feed(&cell, Event::Tick, Io::Here);
        }
    }

    fn next_due(&self) -> Option<Moment> {
        let tick = lock(&self.schedule).next();
        let timeout = lock(&self.deadlines).next();
        tick.into_iter().chain(timeout).min()
    }

    /// Every timekeeper looks at what is due at `at`.
    pub(super) fn set_alarm(&self, at: Moment) {
        self.alarms.move_to(at, self.clock.now());
    }

    /// By how many microseconds the wall clock is ahead of the clock that leases are measured with.
    fn wall_drift(&self) -> i128 {
        i128::from(self.clock.wall().as_micros()) - i128::from(self.clock.now().as_micros())
    }

    /// A wall clock that jumped ahead by more than the margin may mean that the machine was suspended.
    fn notice_jump(&self, before: i128) -> i128 {
        let drift = self.wall_drift();
        let margin = self.options.terms().map_or(Duration::ZERO, |terms| terms.margin).max(MIN_JUMP);
        if drift - before > i128::try_from(margin.as_micros()).unwrap_or(i128::MAX) {
            self.suspect_all();
        }
        drift
    }
}
