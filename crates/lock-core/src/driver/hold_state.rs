//! What guards and their views read of a hold: valid until when, or how it ended.

use super::{
    runtime::{DeadlineTimer, MAX_SLEEP},
    waker_set::{WakerKey, WakerSet},
};
use crate::{
    clock::Clock,
    ids::LeaseId,
    machine::{HoldEnd, HoldId, LostReason},
    name::LockName,
    owner::Owner,
    sync::{Mutex, lock, rank},
    time::Moment,
    token::FencingToken,
};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

/// Keeps the holds of a factory alive.
pub(super) trait Watchdog: Send + Sync {
    /// Sees to it that it runs in the runtime of the caller. Returns `false` if it cannot.
    fn ensure_runs(self: Arc<Self>) -> bool;
}

pub(crate) struct HoldState {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) lease: LeaseId,
    pub(crate) since: Moment,
    watchdog: Weak<dyn Watchdog>,
    clock: Arc<dyn Clock>,
    max_hold_at: Moment,
    validity: Mutex<rank::Hold, Validity>,
    waiting: WakerSet,
}

#[derive(Debug, Clone, Copy)]
enum Validity {
    Until(Moment),
    Ended(HoldEnd),
}

impl HoldState {
    pub(super) fn new(
        (name, owner): (LockName, Owner),
        (token, lease): (FencingToken, LeaseId),
        (since, deadline, max_hold_at): (Moment, Moment, Moment),
        watchdog: Weak<dyn Watchdog>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let validity = Mutex::new(Validity::Until(deadline));
        let waiting = WakerSet::default();
        Self { name, owner, token, lease, since, watchdog, clock, max_hold_at, validity, waiting }
    }

    /// As the machine knows it.
    pub(crate) fn id(&self) -> HoldId {
        HoldId { lease: self.lease.number(), token: self.token }
    }

    /// Compares the clock, since a timer may fire late. The first task that sees the deadline pass ends the hold for
    /// everybody: no later answer of the store can make it valid again.
    pub(crate) fn ended(&self) -> Option<HoldEnd> {
        let how = {
            let mut validity = lock(&self.validity);
            match *validity {
                Validity::Ended(how) => return Some(how),
                Validity::Until(deadline) if self.clock.now() < deadline.min(self.max_hold_at) => {
                    return None;
                }
                Validity::Until(deadline) => {
                    let max_hold = self.max_hold_at <= deadline;
                    let how = HoldEnd::Lost(if max_hold { LostReason::MaxHold } else { LostReason::Expired });
                    *validity = Validity::Ended(how);
                    how
                }
            }
        };
        self.wake_waiting();
        Some(how)
    }

    /// The runtime that carried the worker may be gone, and nobody else would notice. Returns `false` if no worker can
    /// run in the runtime of the caller.
    pub(crate) fn ensure_watchdog(&self) -> bool {
        self.watchdog.upgrade().is_none_or(|watchdog| watchdog.ensure_runs())
    }

    pub(crate) fn remaining(&self) -> Duration {
        match *lock(&self.validity) {
            Validity::Until(deadline) => deadline.min(self.max_hold_at).since(self.clock.now()),
            Validity::Ended(_) => Duration::ZERO,
        }
    }

    /// `false` if somebody saw the deadline pass before.
    pub(super) fn extend(&self, to: Moment) -> bool {
        match &mut *lock(&self.validity) {
            Validity::Until(deadline) => {
                *deadline = to.max(*deadline);
                true
            }
            Validity::Ended(_) => false,
        }
    }

    /// Ends it, if nobody saw the deadline pass before. [`wake_waiting`](Self::wake_waiting) follows when no mutex is
    /// held: wakers are foreign code.
    pub(super) fn end(&self, how: HoldEnd) {
        let mut validity = lock(&self.validity);
        if let Validity::Until(_) = *validity {
            *validity = Validity::Ended(how);
        }
    }

    /// Everybody who waits for the end looks again.
    pub(super) fn wake_waiting(&self) {
        self.waiting.wake_all();
    }

    /// The end of the hold, as a future.
    pub(crate) fn wait_ended(self: Arc<Self>) -> WaitEnded {
        WaitEnded { hold: self, key: WakerKey::default(), timer: DeadlineTimer::default() }
    }

    /// The end if nothing renews the hold; `Moment::NEVER` once it has ended.
    fn deadline(&self) -> Moment {
        match *lock(&self.validity) {
            Validity::Until(deadline) => deadline.min(self.max_hold_at),
            Validity::Ended(_) => Moment::NEVER,
        }
    }
}

/// Completes at the first poll after the end. Each poll compares the clock, and the future has a timer of its own: a
/// process that was stopped resumes with this task before the worker, and a worker that is late must not let the work
/// under a lost lock go on.
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
            // Again, since the end may have come before the registration.
            if let Some(how) = hold.ended() {
                return Poll::Ready(how);
            }
            let (deadline, remaining) = (hold.deadline(), hold.remaining());
            // Without its factory, nobody else notices that the machine was suspended.
            let after = if hold.watchdog.strong_count() == 0 { remaining.min(MAX_SLEEP) } else { remaining };
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
            .field("lease", &self.lease)
            .field("validity", &*lock(&self.validity))
            .finish_non_exhaustive()
    }
}
