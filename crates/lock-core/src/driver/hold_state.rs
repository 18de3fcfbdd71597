//! The state of a hold, as read by its guards and their views: its deadline, or how it ended.

use super::{
    runtime::{DeadlineTimer, MAX_SLEEP},
    validity::Validity,
    waker_set::{WakerKey, WakerSet},
};
use crate::{
    clock::Clock,
    ids::{FencingToken, LeaseId, LeaseNumber},
    machine::{HoldEnd, HoldId, LostReason},
    name::LockName,
    owner::Owner,
    time::Moment,
};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

/// Keeps the holds of a factory alive, and describes them to others.
pub(super) trait Watchdog: Send + Sync {
    /// Ensures that the watchdog runs in the caller's runtime. Returns `false` if it cannot run there.
    fn ensure_runs(self: Arc<Self>) -> bool;

    /// Sets the note on a hold, if the factory has a card.
    fn note(&self, name: &LockName, hold: HoldId, text: &str);
}

/// The parts of a factory that its holds use, even after the factory is gone.
pub(super) struct HoldContext {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) watchdog: Weak<dyn Watchdog>,
}

pub(crate) struct HoldState {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) since: Moment,
    lease: LeaseNumber,
    context: Arc<HoldContext>,
    max_hold_at: Moment,
    validity: Validity,
    waiting: WakerSet,
}

impl HoldState {
    pub(super) fn new(
        (name, owner): (LockName, Owner),
        HoldId { token, lease }: HoldId,
        (since, deadline, max_hold_at): (Moment, Moment, Moment),
        context: Arc<HoldContext>,
    ) -> Self {
        let validity = Validity::until(deadline);
        let waiting = WakerSet::default();
        Self { name, owner, token, since, lease, context, max_hold_at, validity, waiting }
    }

    /// Returns the id that the machine uses.
    pub(crate) fn id(&self) -> HoldId {
        HoldId { lease: self.lease, token: self.token }
    }

    /// Returns the id that the store uses.
    pub(crate) fn lease(&self) -> LeaseId {
        LeaseId::new(self.owner.process(), self.lease)
    }

    /// Returns how the hold ended, if it has. Checks the deadline against the clock, since a timer may fire late. The
    /// first task that finds the deadline passed ends the hold for everyone: no later reply from the store makes it
    /// valid again.
    pub(crate) fn ended(&self) -> Option<HoldEnd> {
        loop {
            let deadline = match self.validity.get() {
                Ok(deadline) => deadline,
                Err(how) => return Some(how),
            };
            if self.context.clock.now() < deadline.min(self.max_hold_at) {
                return None;
            }
            let max_hold = self.max_hold_at <= deadline;
            let how = HoldEnd::Lost(if max_hold { LostReason::MaxHold } else { LostReason::Expired });
            // Fails if the hold was extended, or ended by another task, in the meantime.
            if self.validity.end_at(deadline, how) {
                self.wake_waiting();
                return Some(how);
            }
        }
    }

    /// Sets the note on this hold. Does nothing once it has ended, since a further hold of its lease may have a note, or
    /// once the factory is gone.
    pub(crate) fn note(&self, text: &str) {
        if self.ended().is_none()
            && let Some(watchdog) = self.context.watchdog.upgrade()
        {
            watchdog.note(&self.name, self.id(), text);
        }
    }

    /// Restarts the watchdog if its worker's runtime is gone, which nothing else would notice. Returns `false` if no
    /// worker can run in the caller's runtime.
    pub(crate) fn ensure_watchdog(&self) -> bool {
        self.context.watchdog.upgrade().is_none_or(|watchdog| watchdog.ensure_runs())
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.validity
            .get()
            .map_or(Duration::ZERO, |deadline| deadline.min(self.max_hold_at).since(self.context.clock.now()))
    }

    /// Extends the deadline. Returns `false` if the hold has already ended.
    pub(super) fn extend(&self, to: Moment) -> bool {
        self.validity.extend(to)
    }

    /// Ends the hold, unless it has already ended. The caller calls
    /// [`wake_waiting`](Self::wake_waiting) after it has released its mutex: wakers are foreign code.
    pub(super) fn end(&self, how: HoldEnd) {
        self.validity.end(how);
    }

    /// Wakes every task that waits for the hold to end.
    pub(super) fn wake_waiting(&self) {
        self.waiting.wake_all();
    }

    /// Returns a future that completes when the hold has ended.
    pub(crate) fn wait_ended(self: Arc<Self>) -> WaitEnded {
        WaitEnded { hold: self, key: WakerKey::default(), timer: DeadlineTimer::default() }
    }

    /// Returns the moment at which the hold ends unless it is renewed, or `Moment::NEVER` once it has ended.
    fn deadline(&self) -> Moment {
        self.validity.get().map_or(Moment::NEVER, |deadline| deadline.min(self.max_hold_at))
    }
}

/// Completes at the first poll after the hold has ended. Each poll checks the clock, and the future has its own timer:
/// after a pause of the process, this task may resume before the worker, and a late worker must not let work continue
/// under a lost lock.
pub(crate) struct WaitEnded {
    hold: Arc<HoldState>,
    key: WakerKey,
    timer: DeadlineTimer,
}

impl Future for WaitEnded {
    type Output = HoldEnd;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HoldEnd> {
        let Self { hold, key, timer } = &mut *self;
        if let Some(how) = hold.ended() {
            return Poll::Ready(how);
        }
        hold.waiting.register(key, cx.waker());
        let has_runtime = hold.ensure_watchdog();
        loop {
            // Checked again, since the hold may have ended before the registration.
            if let Some(how) = hold.ended() {
                return Poll::Ready(how);
            }
            let (deadline, remaining) = (hold.deadline(), hold.remaining());
            // Without the factory, nothing else notices that the computer was suspended.
            let after =
                if hold.context.watchdog.strong_count() == 0 { remaining.min(MAX_SLEEP) } else { remaining };
            if !has_runtime || timer.poll(cx, deadline, after).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for WaitEnded {
    fn drop(&mut self) {
        self.hold.waiting.remove(&self.key);
    }
}

impl fmt::Debug for HoldState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("name", &self.name)
            .field("token", &self.token)
            .field("lease", &self.lease())
            .field("validity", &self.validity.get())
            .finish_non_exhaustive()
    }
}
