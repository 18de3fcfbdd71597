//! The task that callers wake. It handles dropped guards and wake-ups, sends requests that callers could not send, and keeps the
//! process's card in the store. The timekeeper handles timeouts.
//!
//! A factory with a [`Worker`](crate::Worker) has one such task and one timekeeper, in that worker's runtime. Any other
//! factory has both in each runtime in which it is used, which is nearly always a single one. If all runtimes shared
//! one task, waiters and holds would lose their watchdog when the task's runtime ends or is not driven (a
//! current-thread runtime outside of `block_on`).

use super::{
    alarm::Alarm, hold_state::Watchdog, request::IoPolicy, runtime::has_timer, shared::Shared,
    timekeeper::Timekeeper, waker_set::wake,
};
use crate::{
    error::{LockError, LockErrorKind},
    machine::{Event, HoldId},
    name::LockName,
    sync::{Handle, Id, Instant, atomic::Ordering, enter, lock, sleep},
};
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// The default time that a shutdown waits for the store to confirm every release.
pub(crate) const SHUTDOWN: Duration = Duration::from_secs(10);

/// A runtime's worker. Dropped when its task ends, or with the runtime.
struct WorkerTask {
    shared: Arc<Shared>,
    runtime: Id,
    notified: Arc<Notify>,
    alarm: Arc<Alarm>,
    begun: bool,
}

impl Drop for WorkerTask {
    fn drop(&mut self) {
        let Shared { runtimes, work, alarms, activity, .. } = &*self.shared;
        if !self.begun {
            lock(&runtimes.ended).push(self.runtime);
        }
        lock(&runtimes.with_worker).retain(|other| other.id() != self.runtime);
        work.remove_worker(&self.notified);
        alarms.remove(&self.alarm);
        self.alarm.stop();
        // This worker may have consumed a notification that was meant for another.
        work.notify();
        // Every waiting task polls again, and starts a worker in its own runtime.
        self.shared.wake_everybody();
        if self.shared.is_closed() && !runtimes.any() {
            self.shared.give_up_requests(IoPolicy::Deferred);
        }
        activity.notify();
    }
}

impl WorkerTask {
    async fn run(&self) {
        let shared = &self.shared;
        let mut closed_at: Option<Instant> = None;
        let (mut card, mut keeps_card) = (pin!(shared.keep_card()), true);
        while !self.alarm.is_stopped() {
            // Work queued from now on sends a notification, so none is missed.
            shared.do_queued_work();
            if shared.is_closed() {
                let closed_at = *closed_at.get_or_insert_with(|| {
                    shared.close_entries();
                    Instant::now()
                });
                if shared.is_drained() || Instant::now() >= closed_at + shared.shutdown_bound() {
                    return;
                }
            }
            let leave = closed_at.map(|at| at + shared.shutdown_bound());
            let left = leave.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            tokio::select! {
                biased;
                () = self.notified.notified() => {}
                () = &mut card, if keeps_card => keeps_card = false,
                () = sleep(left), if leave.is_some() => {}
            }
            tokio::task::coop::consume_budget().await;
        }
    }
}

impl Shared {
    /// Starts a worker unless one runs in the runtime that the factory was given, or else in the caller's runtime.
    /// Outside of a runtime, any worker will do.
    pub(crate) fn ensure_worker(self: &Arc<Self>) -> Result<(), LockError> {
        let runtime = match self.runtime() {
            Some(runtime) => runtime,
            None if self.runtimes.any() => return Ok(()),
            None => return Err(LockError::new(LockErrorKind::NoRuntime)),
        };
        let id = runtime.id();
        if self.runtimes.has_worker(id) {
            return Ok(());
        }
        let ended = || LockError::new(LockErrorKind::NoRuntime).detail("the runtime has ended".to_owned());
        if self.runtimes.has_ended(id) {
            return Err(ended());
        }
        enter(&runtime, || self.needs_runtime())?;
        {
            let mut runtimes = lock(&self.runtimes.with_worker);
            if runtimes.iter().any(|other| other.id() == id) {
                return Ok(());
            }
            runtimes.push(runtime.clone());
        }
        enter(&runtime, || self.spawn_worker(&runtime));
        if self.runtimes.has_ended(id) { Err(ended()) } else { Ok(()) }
    }

    fn spawn_worker(self: &Arc<Self>, runtime: &Handle) {
        let (id, shared) = (runtime.id(), self.clone());
        let (notified, alarm) = (self.work.add_worker(), Alarm::new(self.has_backstop));
        self.alarms.add(alarm.clone());
        let timekeeper =
            Timekeeper { shared: shared.clone(), alarm: alarm.clone(), worker: notified.clone() };
        let mut worker = WorkerTask { shared, runtime: id, notified, alarm, begun: false };
        runtime.spawn(timekeeper.run());
        runtime.spawn(async move {
            worker.begun = true;
            worker.run().await;
            let shared = worker.shared.clone();
            drop(worker);
            if shared.is_closed() {
                shared.remove_card().await;
            }
        });
    }

    /// Returns an error unless the caller is in a runtime with a timer.
    pub(crate) fn needs_runtime(&self) -> Result<(), LockError> {
        match Handle::try_current() {
            Ok(runtime) if self.runtimes.has_worker(runtime.id()) || has_timer() => Ok(()),
            _ => Err(LockError::new(LockErrorKind::NoRuntime)),
        }
    }

    pub(super) fn close_entries(self: &Arc<Self>) {
        for entry in self.table.all() {
            self.dispatch(&entry, Event::Shutdown, IoPolicy::Inline);
        }
    }

    /// Returns the time for which a closed factory's worker continues, in order to complete releases.
    fn shutdown_bound(&self) -> Duration {
        Duration::from_millis(self.shutdown_millis.load(Ordering::Relaxed)).max(SHUTDOWN)
    }

    fn wake_everybody(&self) {
        for entry in self.table.all() {
            let (wakers, hold) = entry.take_wakers();
            wakers.into_iter().for_each(wake);
            if let Some(hold) = hold {
                hold.wake_waiting();
            }
        }
    }
}

impl Watchdog for Shared {
    fn ensure_runs(self: Arc<Self>) -> bool {
        self.ensure_worker().is_ok()
    }

    fn note(&self, name: &LockName, hold: HoldId, text: &str) {
        if let Some(own) = &self.own_card {
            own.note(name, hold, text, self.clock.now());
        }
    }
}
