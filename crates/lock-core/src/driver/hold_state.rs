//! What guards and their views read of a hold: valid until when, or how it ended.

use super::{
    Driver,
    worker::{has_timer, rest},
};
use crate::{
    clock::Clock,
    ids::LeaseId,
    machine::{Ended, HoldId, LostReason},
    name::LockName,
    owner::Owner,
    sync::{Mutex, lock},
    time::Moment,
    token::FencingToken,
};
use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::sync::Notify;

pub(crate) struct HoldState {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) lease: LeaseId,
    pub(crate) since: Moment,
    driver: Weak<Driver>,
    clock: Arc<dyn Clock>,
    max_hold_at: Moment,
    validity: Mutex<Validity>,
    bell: Notify,
}

#[derive(Debug, Clone, Copy)]
enum Validity {
    Until(Moment),
    Ended(Ended),
}

impl HoldState {
    pub(crate) fn new(
        (name, owner): (LockName, Owner),
        (token, lease): (FencingToken, LeaseId),
        (since, deadline, max_hold_at): (Moment, Moment, Moment),
        driver: Weak<Driver>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let validity = Mutex::new(Validity::Until(deadline));
        Self { name, owner, token, lease, since, driver, clock, max_hold_at, validity, bell: Notify::new() }
    }

    /// As the machine knows it.
    pub(crate) fn id(&self) -> HoldId {
        HoldId { lease: self.lease.number(), token: self.token }
    }

    /// Compares the clock, since a timer may fire late. Whoever sees the deadline pass ends the hold for
    /// everybody: no later answer of the store can make it valid again.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let how = {
            let mut validity = lock(&self.validity);
            match *validity {
                Validity::Ended(how) => return Some(how),
                Validity::Until(deadline) if self.clock.now() < deadline.min(self.max_hold_at) => {
                    return None;
                }
                Validity::Until(deadline) => {
                    let max_hold = self.max_hold_at <= deadline;
                    let how = Ended::Lost(if max_hold { LostReason::MaxHold } else { LostReason::Expired });
                    *validity = Validity::Ended(how);
                    how
                }
            }
        };
        self.bell.notify_waiters();
        Some(how)
    }

    /// The runtime that carried the worker may be gone, and nobody else would notice.
    pub(crate) fn ensure_watchdog(&self) {
        if let Some(driver) = self.driver.upgrade() {
            let _ = driver.ensure_worker();
        }
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

    /// Ends it, if nobody saw the deadline pass before. Who waits is told by [`ring`](Self::ring), when no mutex
    /// is held: wakers are other people's code.
    pub(super) fn end(&self, how: Ended) {
        let mut validity = lock(&self.validity);
        if let Validity::Until(_) = *validity {
            *validity = Validity::Ended(how);
        }
    }

    /// Whoever waits looks again.
    pub(super) fn ring(&self) {
        self.bell.notify_waiters();
    }

    /// Completes at the first poll after the end, whether or not a timer fired.
    pub(crate) async fn wait_ended(self: Arc<Self>) -> Ended {
        loop {
            let mut bell = std::pin::pin!(self.bell.notified());
            bell.as_mut().enable();
            if let Some(how) = self.ended() {
                return how;
            }
            self.ensure_watchdog();
            // The factory may be gone, and with it whoever rings: then it ends by itself. (Where there is no timer, the
            // next poll sees it.)
            if self.driver.strong_count() == 0 && has_timer() {
                rest(self.remaining()).await;
            } else {
                bell.await;
            }
        }
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
