//! The watchdog: renews leases, and ends waits and calls that have timed out.
//!
//! Callers never wake this task. They move its [`Alarm`], and the runtime's timer wakes it. A thread that blocks after
//! it acquired or released a lock therefore does not delay the renewal of another lock. Such a thread may delay the
//! worker; this task then does the worker's work.

use super::{
    alarm::Alarm,
    entry::LockEntry,
    request::{IoPolicy, Request},
    shared::Shared,
};
use crate::{machine::Event, sync::lock, time::Moment};
use std::{future::poll_fn, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// The smallest step of the wall clock that counts as a resumption from suspend. Readings of two clocks always differ
/// by a few microseconds.
const MIN_JUMP: Duration = Duration::from_millis(10);

/// A runtime's timekeeper. Dropping it also ends that runtime's worker.
pub(super) struct Timekeeper {
    pub(super) shared: Arc<Shared>,
    pub(super) alarm: Arc<Alarm>,
    pub(super) worker: Arc<Notify>,
}

impl Drop for Timekeeper {
    fn drop(&mut self) {
        // The worker notices this and ends as well, so that the next caller starts both.
        self.alarm.stop();
        self.worker.notify_one();
    }
}

impl Timekeeper {
    pub(super) async fn run(self) {
        let shared = &self.shared;
        let mut drift = shared.wall_drift();
        loop {
            self.alarm.begin_turn();
            drift = shared.notice_jump(drift);
            if shared.expire_operations() {
                // Lets the store drop its futures of these operations before others follow them.
                tokio::task::yield_now().await;
            }
            shared.tick_due_entries();
            shared.send_renewals();
            // The worker is blocked, or about to do this itself: whichever comes first does it.
            shared.do_queued_work();
            shared.sum_up_warnings(shared.clock.now());
            if shared.is_closed() {
                // A worker ends only when there is no activity, and one may have checked while this task was busy. It
                // need not be this runtime's worker, which may have ended and been replaced.
                shared.work.notify();
            }
            if let Some(next) = shared.next_due() {
                self.alarm.move_to(next, shared.clock.now());
            }
            if !poll_fn(|cx| self.alarm.poll(cx)).await {
                return;
            }
            tokio::task::coop::consume_budget().await;
        }
    }
}

impl Shared {
    fn tick_due_entries(self: &Arc<Self>) {
        let due = lock(&self.schedule).take_due(self.clock.now());
        for entry in due {
            lock(&entry.state).scheduled.wake = None;
            self.dispatch(&entry, Event::Tick, IoPolicy::Inline);
        }
    }

    /// Ends the operations that have timed out, and queues their outcomes. Returns `true` if there are any.
    fn expire_operations(&self) -> bool {
        let due = lock(&self.deadlines).take_due(self.clock.now());
        let expired: Vec<_> = due.iter().filter_map(|submitted| submitted.expire()).collect();
        let any = !expired.is_empty();
        if any {
            self.work.put(|work| work.answered.extend(expired));
        }
        any
    }

    fn send_renewals(self: &Arc<Self>) {
        for (entry, renewal) in self.gather_renewals() {
            if let Some(event) = self.perform(&entry, renewal) {
                self.dispatch(&entry, event, IoPolicy::Inline);
            }
        }
    }

    /// Returns the renewals that are due and, if there are any, those of other entries that may be sent with them.
    /// Holds that were renewed together are due together, so from then on they share each call.
    fn gather_renewals(self: &Arc<Self>) -> Vec<(Arc<LockEntry>, Request)> {
        let mut renewals = self.work.take_renewals();
        if !renewals.is_empty() {
            let renewable = lock(&self.schedule).renewable(self.clock.now());
            renewable.iter().for_each(|entry| self.dispatch(entry, Event::RenewEarly, IoPolicy::Inline));
            renewals.extend(self.work.take_renewals());
        }
        renewals
    }

    fn next_due(&self) -> Option<Moment> {
        let tick = lock(&self.schedule).next();
        let timeout = lock(&self.deadlines).next();
        tick.into_iter().chain(timeout).chain(self.observers.next_sum()).min()
    }

    /// Returns the number of microseconds by which the wall clock is ahead of the clock that measures leases.
    fn wall_drift(&self) -> i128 {
        i128::from(self.clock.wall().as_micros()) - i128::from(self.clock.now().as_micros())
    }

    /// Checks whether the computer was suspended: if the wall clock has jumped ahead by more than the margin, every hold
    /// is renewed before it is relied on. Returns the current drift.
    fn notice_jump(&self, before: i128) -> i128 {
        let drift = self.wall_drift();
        let margin = self.options.terms().map_or(Duration::ZERO, |terms| terms.margin).max(MIN_JUMP);
        if drift - before > i128::try_from(margin.as_micros()).unwrap_or(i128::MAX) {
            for entry in self.table.all() {
                self.defer_event(&entry, |deferred| deferred.suspicion = true);
            }
        }
        drift
    }
}
