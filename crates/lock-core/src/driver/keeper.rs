//! The task of a factory that does what nobody awaits: it renews leases, ends waits and requests that have timed out,
//! releases dropped guards, handles wake-ups, and keeps the process's card in the store. It runs in the
//! [home](super::runtime) of the factory.

use super::{
    agenda::Answered,
    entry::{LockEntry, QueueKind},
    hold_state::Watchdog,
    request::IoPolicy,
    runtime::MAX_SLEEP,
    shared::Shared,
};
use crate::{
    error::{LockError, no_runtime},
    machine::{Event, HoldId},
    name::LockName,
    sync::{atomic::Ordering, lock, sleep},
    wake::{contained, wake},
};
use futures_util::FutureExt;
use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};
use tokio::task::yield_now;

/// The default time that a shutdown waits for the store to confirm every release.
pub(crate) const SHUTDOWN: Duration = Duration::from_secs(10);

/// The smallest step of the wall clock that counts as a resumption from suspend. Readings of two clocks always differ
/// by a few microseconds.
const MIN_JUMP: Duration = Duration::from_millis(10);

/// The number of queued entries after which others have their turn.
const MANY: usize = 128;

/// The pause after a panic.
const AFTER_PANIC: Duration = Duration::from_millis(10);

/// The name of a step for one lock, for the log.
const A_STEP: &str = "a store or a clock";

/// Starts the task unless it is running.
///
/// # Errors
/// [`NoRuntime`](crate::LockErrorKind::NoRuntime) if there is no runtime in which it can run.
pub(super) fn ensure_runs(shared: &Arc<Shared>) -> Result<(), LockError> {
    while !shared.home.is_running() {
        // Otherwise another thread has just begun it, or it has just ended.
        if let Some(runtime) = shared.home.begin()? {
            runtime.spawn(Keeper { shared: shared.clone() }.run());
            // A runtime that has ended drops the task immediately.
            if !shared.home.is_running() && !shared.is_closed() {
                return Err(no_runtime("the runtime has ended"));
            }
            break;
        }
    }
    Ok(())
}

impl Watchdog for Shared {
    fn ensure_runs(self: Arc<Self>) {
        // Without a runtime, the hold ends at its deadline.
        let _ = ensure_runs(&self);
    }

    fn pin(self: Arc<Self>, name: &LockName, hold: HoldId) -> Option<LockName> {
        let entry = self.table.get(name)?;
        self.dispatch(&entry, Event::Pin { hold }, IoPolicy::Inline);
        Some(entry.stored.clone())
    }

    fn note(&self, name: &LockName, hold: HoldId, text: &str) {
        if let Some(card) = &self.own_card {
            card.note(name, hold, text);
        }
    }
}

/// Ends all holds without releasing them, because no handle and no task is left. Their leases expire by themselves.
pub(super) fn abandon(shared: &Arc<Shared>) {
    for entry in shared.table.all() {
        shared.dispatch(&entry, Event::Shutdown, IoPolicy::Discard);
    }
    give_up_requests(shared, IoPolicy::Discard);
    shared.agenda.forget_times();
}

/// Ends the waits and the holds of a factory that shuts down.
pub(super) fn close_entries(shared: &Arc<Shared>) {
    for entry in shared.table.all() {
        shared.dispatch(&entry, Event::Shutdown, IoPolicy::Inline);
    }
}

/// Ends every request with an unknown outcome, because nothing will send it or end it in time.
fn give_up_requests(shared: &Arc<Shared>, policy: IoPolicy) {
    let (answered, requests) = shared.agenda.take_unfinished();
    deliver(shared, answered, policy);
    for (entry, request) in requests {
        shared.dispatch(&entry, request.unknown(), policy);
    }
}

fn deliver(shared: &Arc<Shared>, answered: Vec<Answered>, policy: IoPolicy) {
    for Answered { entry, event, active } in answered {
        dispatch(shared, &entry, event, policy);
        drop(active);
    }
}

/// Dispatches an event. A panic over one lock must not end the work for others.
fn dispatch(shared: &Arc<Shared>, entry: &Arc<LockEntry>, event: Event, policy: IoPolicy) {
    contained(A_STEP, || shared.dispatch(entry, event, policy));
}

/// Dropped when the task ends, or with its runtime.
struct Keeper {
    shared: Arc<Shared>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.home.end();
        if shared.is_closed() {
            give_up_requests(shared, IoPolicy::Deferred);
        }
        // Every waiting task polls again, and starts another task if that is possible.
        for entry in shared.table.all() {
            let (wakers, holds) = entry.take_wakers();
            wakers.into_iter().for_each(wake);
            holds.iter().for_each(|hold| hold.wake_waiting());
        }
        shared.activity.notify();
    }
}

impl Keeper {
    async fn run(self) {
        // A panic of foreign code must not end other work.
        while AssertUnwindSafe(self.keep()).catch_unwind().await.is_err() {
            sleep(AFTER_PANIC).await;
        }
        let shared = self.shared.clone();
        // The thread of the process's last factory would end now.
        let _runs = shared.home.current();
        drop(self);
        if let Some(card) = &shared.own_card {
            card.remove().await;
        }
    }

    /// Works until the factory is closed and no work is left, or the time for that is over.
    async fn keep(&self) {
        let shared = &self.shared;
        let mut drift = self.wall_drift();
        let mut closed_until = None;
        let (mut card, mut keeps_card) = (pin!(self.keep_card()), true);
        loop {
            shared.agenda.begin_turn();
            let mut idle = pin!(shared.activity.changed());
            idle.as_mut().enable();
            drift = self.notice_jump(drift);
            self.do_what_is_due().await;
            let now = shared.clock.now();
            if shared.is_closed() {
                let until = *closed_until.get_or_insert_with(|| {
                    close_entries(shared);
                    now + self.shutdown_bound()
                });
                if shared.is_drained() || now >= until {
                    return;
                }
            }
            shared.agenda.end_turn();
            let due = shared.agenda.next().into_iter().chain(shared.observers.next_sum()).chain(closed_until);
            let next = due.min().map(|due| due.min(now + MAX_SLEEP));
            let changed = shared.agenda.sleep_until(next);
            tokio::select! {
                biased;
                () = changed => {}
                () = idle, if closed_until.is_some() => {}
                () = &mut card, if keeps_card => keeps_card = false,
                () = sleep(next.unwrap_or(now).since(now)), if next.is_some() => {}
            }
            // The next turn of a busy factory must not come before those of others.
            yield_now().await;
        }
    }

    async fn keep_card(&self) {
        let Some(card) = &self.shared.own_card else { return };
        let lasts =
            |name: &LockName, token| self.shared.local_view(name).0.iter().any(|hold| hold.token == token);
        card.keep(|| self.shared.is_closed(), lasts).await;
    }

    async fn do_what_is_due(&self) {
        let shared = &self.shared;
        if self.expire_operations() {
            // Lets the store drop its futures of these operations before others follow them.
            yield_now().await;
        }
        self.do_what_has_a_time();
        self.do_queued_work();
        contained("an observer", || shared.sum_up_warnings(shared.clock.now()));
    }

    /// Ends waits, and renews.
    fn do_what_has_a_time(&self) {
        let shared = &self.shared;
        for entry in shared.agenda.take_due(shared.clock.now()) {
            lock(&entry.state).scheduled.wake = None;
            dispatch(shared, &entry, Event::Tick, IoPolicy::Inline);
        }
        self.send_renewals();
    }

    /// Ends the operations that have timed out, and queues their outcomes. Returns `true` if there are any.
    fn expire_operations(&self) -> bool {
        let due = self.shared.agenda.take_expired(self.shared.clock.now());
        let expired: Vec<_> = due.iter().filter_map(|operation| operation.expire()).collect();
        let any = !expired.is_empty();
        if any {
            self.shared.agenda.put(|work| work.answered.extend(expired));
        }
        any
    }

    /// Sends the renewals that are due and, if there are any, those of other entries that may be sent with them. Holds
    /// that were renewed together are due together, so from then on they share each call.
    fn send_renewals(&self) {
        let shared = &self.shared;
        let mut renewals = shared.agenda.take_renewals();
        if !renewals.is_empty() {
            for entry in shared.agenda.renewable(shared.clock.now()) {
                dispatch(shared, &entry, Event::RenewEarly, IoPolicy::Inline);
            }
            renewals.extend(shared.agenda.take_renewals());
        }
        for (entry, renewal) in renewals {
            contained(A_STEP, || shared.perform_and_dispatch(&entry, renewal));
        }
    }

    /// Other factories, and renewals, do not wait for a long queue: the rest of it is left to the next turn.
    fn do_queued_work(&self) {
        let shared = &self.shared;
        let work = shared.agenda.take_work(MANY);
        deliver(shared, work.answered, IoPolicy::Inline);
        for (kind, entries) in [(QueueKind::Dropped, work.dropped), (QueueKind::Woken, work.woken)] {
            for entry in entries {
                entry.taken_from_queue(kind);
                dispatch(shared, &entry, Event::Tick, IoPolicy::Inline);
            }
        }
        for (entry, request) in work.requests {
            contained(A_STEP, || shared.perform_and_dispatch(&entry, request));
        }
    }

    /// Returns the time for which the task of a closed factory continues, in order to complete releases.
    fn shutdown_bound(&self) -> Duration {
        Duration::from_millis(self.shared.shutdown_millis.load(Ordering::Relaxed)).max(SHUTDOWN)
    }

    /// Returns the number of microseconds by which the wall clock is ahead of the clock that measures leases.
    fn wall_drift(&self) -> i128 {
        let clock = &self.shared.clock;
        i128::from(clock.wall().as_micros()) - i128::from(clock.now().as_micros())
    }

    /// Checks whether the computer was suspended: if the wall clock has jumped ahead by more than the margin, every
    /// hold is renewed before it is relied on. Returns the current drift.
    fn notice_jump(&self, before: i128) -> i128 {
        let (shared, drift) = (&self.shared, self.wall_drift());
        let margin = shared.options.terms().map_or(Duration::ZERO, |terms| terms.margin).max(MIN_JUMP);
        if drift - before > i128::try_from(margin.as_micros()).unwrap_or(i128::MAX) {
            for entry in shared.table.all() {
                shared.defer_event(&entry, |deferred| deferred.suspicion = true);
            }
        }
        drift
    }
}
