//! Wake-ups: their recipients, their delivery, and the effect of a new connection.

use crate::{
    message::Notification,
    plan::LATEST,
    state::{Happening, State},
    trace::Who,
};
use lock_core::{
    LockName,
    backend::{MissedWakes, NotifyWaiters, Released},
};

impl State {
    /// Notifies the listeners of a release.
    pub(crate) fn notify_listeners(
        &mut self,
        node: usize,
        name: &LockName,
        notify: NotifyWaiters,
    ) -> Released {
        let listeners = self.stores[node].listeners(name, notify);
        if !listeners.is_empty() && self.plan.quorum.is_some() {
            self.wakes_waiters(name);
        }
        for link in &listeners {
            if !self.calm && self.dice.chance(self.plan.faults.lose_signal) {
                self.count("lost wake-up");
                continue;
            }
            let mut after = self.latency();
            if !self.calm && self.dice.chance(self.plan.faults.late_signal) {
                self.count("late wake-up");
                after += self.dice.below(LATEST);
            }
            let connection = self.links[*link].connection;
            self.after(
                after,
                Happening::Notification { link: *link, connection, what: Notification::Freed(name.clone()) },
            );
        }
        Released::Released { listeners: u32::try_from(listeners.len()).ok() }
    }

    pub(crate) fn hear(&mut self, link: usize, connection: u64, what: Notification) {
        let process = self.links[link].process;
        if self.is_paused(process) {
            let until = self.pauses[process].until;
            return self.at(until, Happening::Notification { link, connection, what });
        }
        let to = &self.links[link];
        if to.dead || to.connection != connection || to.partition.is_some_and(|cut| cut.until > self.now) {
            return;
        }
        self.note(Who::Link(link), "is woken", (0, 0));
        self.notify_later(link, what);
    }

    /// Reconnects a process: it renews its subscriptions, then asks again.
    pub(crate) fn reconnect(&mut self, link: usize, restarted: bool) {
        let process = self.links[link].process;
        let node = self.links[link].node;
        let busy = self.pauses[process].until.max(self.stores[node].down_until);
        if busy > self.now {
            return self.at(busy, Happening::Reconnect { link, restarted });
        }
        let to = &mut self.links[link];
        if to.dead || to.partition.is_some_and(|cut| cut.until > self.now) {
            return;
        }
        to.partition = None;
        to.connection += 1;
        to.since = self.now;
        let wanted = to.wanted.clone();
        self.stores[node].watchers.retain(|(_, watcher)| *watcher != link);
        wanted.into_iter().for_each(|name| self.stores[node].watch(link, name));
        self.note(Who::Link(link), "reconnects", (restarted.into(), 0));
        self.notify_later(
            link,
            if restarted { Notification::Restarted } else { Notification::All(MissedWakes::Reconnected) },
        );
    }
}
