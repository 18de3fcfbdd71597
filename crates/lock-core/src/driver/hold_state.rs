//! What guards and their views read of a hold: valid until when, or how it ended.

use crate::{
    clock::Clock,
    ids::LeaseId,
    machine::{Ended, LostReason},
    name::LockName,
    owner::Owner,
    sync::lock,
    time::Moment,
    token::FencingToken,
};
use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;

pub(crate) struct HoldState {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) lease: LeaseId,
    pub(crate) since: Moment,
    clock: Arc<dyn Clock>,
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
        (since, deadline): (Moment, Moment),
        clock: Arc<dyn Clock>,
    ) -> Self {
        let validity = Mutex::new(Validity::Until(deadline));
        Self { name, owner, token, lease, since, clock, validity, bell: Notify::new() }
    }

    /// Compares the clock, since a timer may fire late. Whoever sees the deadline pass ends the hold for
    /// everybody: no later answer of the store can make it valid again.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let how = {
            let mut validity = lock(&self.validity);
            match *validity {
                Validity::Ended(how) => return Some(how),
                Validity::Until(deadline) if self.clock.now() < deadline => return None,
                Validity::Until(_) => {
                    let how = Ended::Lost(LostReason::Expired);
                    *validity = Validity::Ended(how);
                    how
                }
            }
        };
        self.bell.notify_waiters();
        Some(how)
    }

    pub(crate) fn remaining(&self) -> Duration {
        match *lock(&self.validity) {
            Validity::Until(deadline) => deadline.since(self.clock.now()),
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

    pub(super) fn end(&self, how: Ended) {
        {
            let mut validity = lock(&self.validity);
            if let Validity::Until(_) = *validity {
                *validity = Validity::Ended(how);
            }
        }
        self.bell.notify_waiters();
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
            bell.await;
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
