//! The promises that are checked by inspecting a state.

use crate::{
    client::MAX_WAIT,
    config::Config,
    laws::{Broken, Law},
    message::Ask,
    store::{drawn_by, id_of},
    world::World,
};
use lock_core::clock::Moment;
use std::time::Duration;

/// The time within which a waiter that knows the lock is free tries again. A back-off after a failure is shorter.
const SOON: Duration = Duration::from_secs(1);

impl World {
    /// Adds the promises that this state breaks.
    pub(crate) fn look(&mut self, config: &Config) {
        let mut broken = Broken::default();
        self.look_at_holds(config, &mut broken);
        self.look_at_bounds(&mut broken);
        if self.is_settled(config) {
            self.look_at_overdue_waiters(config, &mut broken);
        }
        self.broken.join(broken);
    }

    fn look_at_holds(&self, config: &Config, broken: &mut Broken) {
        let stored = self.store.held(self.now);
        let mut valid = Vec::new();
        for (process, client) in self.clients.iter().enumerate() {
            let now = self.local(config, process);
            for belief in client.beliefs.iter().filter(|belief| belief.is_valid(now)) {
                valid.push(belief.epoch);
                if belief.epoch == self.store.epoch {
                    // The process's clock reaches the deadline before the lease ends in the store.
                    let until = Self::true_time(config, process, belief.deadline);
                    let kept = stored.is_some_and(|(lease, _, left)| {
                        lease == id_of(belief.id.lease)
                            && u128::from(until) <= u128::from(self.now) + left.as_micros()
                    });
                    broken.unless(kept, Law::Deadline);
                }
            }
        }
        let twice = valid.iter().enumerate().any(|(at, epoch)| valid[..at].contains(epoch));
        broken.unless(!twice, Law::Exclusion);
    }

    fn look_at_bounds(&self, broken: &mut Broken) {
        for client in &self.clients {
            let takes = client.calls.iter().filter(|call| matches!(call.ask, Ask::Take { .. })).count();
            let depths = client.calls.iter().filter(|call| call.ask.changes_depth());
            let mut leases: Vec<_> = depths.map(|call| call.ask.lease()).collect();
            leases.sort_unstable();
            let alone = takes <= 1 && leases.windows(2).all(|two| two[0] != two[1]);
            let bounded = client.calls.len() <= 12 && client.machine.waiters() <= 8;
            broken.unless(alone && bounded, Law::NoPanic);
            broken.unless(client.machine.waiters() == client.waiting.len(), Law::NoPanic);
        }
    }

    /// Checks that nothing is overdue in a state in which nothing more happens at the present moment.
    fn look_at_overdue_waiters(&self, config: &Config, broken: &mut Broken) {
        let kept = self.store.epoch == 0;
        let announced = self.store.announced || config.punctual && kept;
        let announced = announced && self.store.held(self.now).is_none();
        for (process, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.paused) {
            let now = self.local(config, process);
            let untold = client.beliefs.iter().any(|belief| !belief.ended && belief.deadline <= now);
            broken.unless(!untold, Law::LossReportedOnce);
            // By then, a waiter with a deadline must have been answered.
            broken.unless(client.waiting.iter().all(|(_, until)| now < *until), Law::BoundedWait);
            if client.waiting.is_empty() || !client.calls.is_empty() {
                continue;
            }
            let wake = client.machine.wake_at();
            let wakes_by = |at| wake.is_some_and(|wake| wake <= at);
            broken.unless(wakes_by(Moment::NEVER), Law::NoDeadWait);
            if client.machine.holder().is_some() {
                continue; // they wait for their own process
            }
            broken.unless(wakes_by(now + MAX_WAIT + SOON), Law::NoDeadWait);
            let hears = self.net.iter().any(|message| message.process == process);
            // Its waiters wait for its own minimum, even if the store has lost that lease.
            let keeps = self.kept.is_some_and(|kept| drawn_by(kept.lease.number()) == process);
            if announced && client.watching && !hears && !keeps {
                broken.unless(wakes_by(now + SOON), Law::NoDeadWait);
            }
        }
    }
}
