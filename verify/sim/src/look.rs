//! Repeated checks of what holders believe: the store must agree, and the loss of a hold must be reported in time.

use crate::{
    link::Link,
    oracle::{Oracle, SLACK},
    state::Pause,
    stores::Stores,
};
use lock_core::{
    FencingToken,
    backend::LeaseId,
    clock::{Clock, Moment},
};

/// The interval at which the driver checks the clock without a timer. A suspended process notices its loss late by at
/// most this.
const WOKEN: u64 = 1_100_000;

impl Oracle {
    /// Checks all current beliefs. Returns the time of the next check.
    pub(crate) fn look(&mut self, now: u64, stores: &Stores, links: &[Link], pauses: &[Pause]) -> Vec<u64> {
        let mut again = Vec::new();
        for id in self.open.iter().copied().collect::<Vec<_>>() {
            let Some(held) = self.holds.get_mut(&id) else { continue };
            let (link, told) = (&links[held.link], held.ended.is_some());
            let Some(taken) = held.taken.as_mut().filter(|_| !link.dead && !told) else {
                self.open.remove(&id);
                continue;
            };
            let left = taken.hold.remaining();
            let until = link.clock.when(link.clock.now() + left);
            if !left.is_zero() && until > taken.until + 1 {
                taken.until = until;
                again.push(until + SLACK + 1_000);
                self.extended(id, now, until, stores);
            } else if left.is_zero() {
                let pause = &pauses[link.process];
                let woken = if pause.until > 0 { pause.until + WOKEN } else { 0 };
                let told_by = (taken.until + SLACK).max(woken);
                self.must(now <= told_by, || {
                    format!("{id:?} had ended, but this was not reported by {told_by}")
                });
            }
        }
        again
    }

    /// Checks a holder that believes in its hold for longer than before.
    fn extended(&mut self, id: (LeaseId, FencingToken), now: u64, until: u64, stores: &Stores) {
        let (Some(lease), Some(held)) = (self.leases.get(&id.0), self.holds.get(&id)) else { return };
        let Some(taken) = &held.taken else { return };
        if let Some(robbed) = lease.robbed {
            // It may keep its deadline from before the loss, but must not get another one. A re-entry may have had the
            // longest of all leases.
            let sent = until.saturating_sub(self.longest);
            let late = sent > robbed + SLACK + self.longest / 100;
            let revived = lease.revived;
            return self
                .must(revived || !late, || format!("{id:?} was gone at {robbed}, but renewed at {sent}"));
        }
        if let Some(key) = taken.key {
            self.history.extended(key, Moment::from_micros(until));
        }
        let stored = stores.stored(now, &held.name);
        let id_there = stores[0].data.stored_id(id.0);
        let safe = stored.is_some_and(|stored| stored.lease == id_there && stored.until >= until);
        let timeless = self.quorum.is_some_and(|quorum| quorum.timeless);
        self.must(safe || timeless, || format!("{id:?}: held until {until}, but the store has {stored:?}"));
    }
}
