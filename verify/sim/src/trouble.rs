//! Faults of whole processes and stores, drawn one at a time by the plan.

use crate::{
    message::Notification,
    net::{Cut, Link, Partition},
    oracle::StoredBefore,
    plan::Trouble,
    state::{Happening, Order, State},
    store::Stored,
    trace::Who,
};
use lock_core::{LockName, backend::MissedWakes};

impl State {
    /// Causes the next fault and schedules another one.
    pub(crate) fn trouble(&mut self) {
        if self.calm {
            return;
        }
        let next = self.dice.below(2 * self.plan.trouble_every) + 1;
        self.after(next, Happening::Trouble);
        let Some(trouble) = self.draw(self.plan.troubles.len()).map(|n| self.plan.troubles[n]) else {
            return;
        };
        let process = self.draw(self.plan.processes).unwrap_or(0);
        let node = self.draw_node();
        // The last links of the process are its current ones.
        let of_process = |link: &Link| link.process == process && link.node == node;
        let Some(link) = self.links.iter().rposition(of_process) else { return };
        let lease = u64::try_from(self.plan.max_lease().as_millis()).unwrap_or(0);
        let scale = [30, lease / 3, lease * 3 / 2][self.draw(3).unwrap_or(0)];
        let time = (1 + self.dice.below(scale)) * 1_000;
        self.note(Who::Link(link), "trouble", (trouble as u64, time));
        match trouble {
            Trouble::Partition => self.partition(link, time),
            Trouble::Pause => self.pause(process, link, time),
            Trouble::StorePause => {
                self.count("store pause");
                self.stores[node].paused_until = self.now + time;
            }
            Trouble::RestartKept | Trouble::RestartEmpty | Trouble::RestartOld => {
                self.restart(node, trouble, time)
            }
            // Caused by a client.
            Trouble::Force => {}
            Trouble::SmallStep => {
                if self.now > self.last_small_step + 2 * lease * 1_000 {
                    self.count("small step");
                    self.last_small_step = self.now;
                    self.stores[node].clock.step(1_000);
                }
            }
            Trouble::StepAhead => {
                self.count("step ahead");
                self.step_clock(node, i64::try_from(time).unwrap_or(0));
            }
            Trouble::StepBack => {
                self.count("step back");
                self.oracle.stepped_back = true;
                self.step_clock(node, -i64::try_from(time).unwrap_or(0));
            }
            Trouble::WallStep => {
                self.count("wall step");
                let step = i64::try_from(time).unwrap_or(0);
                let step = if self.dice.chance(0.5) { step * 100 } else { -step * 100 };
                self.links[link].clock.step_wall(step);
            }
            Trouble::Crash => self.orders[process] = Some(Order::Die),
            Trouble::Shutdown => self.orders[process] = Some(Order::ShutDown),
            Trouble::Copy => self.orders[process] = Some(Order::Copy),
            Trouble::Spurious => {
                self.count("spurious wake-up");
                let lagged = Notification::All(MissedWakes::Lagged);
                let what = if self.dice.chance(0.5) { lagged } else { Notification::Restarted };
                let connection = self.links[link].connection;
                self.after(0, Happening::Notification { link, connection, what });
            }
        }
    }

    fn draw(&mut self, of: usize) -> Option<usize> {
        (of > 0).then(|| usize::try_from(self.dice.below(of as u64)).unwrap_or(0))
    }

    /// Draws a node. Uses no random number if there is a single store.
    fn draw_node(&mut self) -> usize {
        if self.stores.len() > 1 { self.draw(self.stores.len()).unwrap_or(0) } else { 0 }
    }

    fn step_clock(&mut self, node: usize, micros: i64) {
        let before = self.kept(node);
        self.stores[node].clock.step(micros);
        let Self { oracle, stores, now, .. } = self;
        oracle.data_changed(*now, node, &before, stores);
    }

    fn partition(&mut self, link: usize, time: u64) {
        if self.links[link].partition.is_some() || self.links[link].dead {
            return;
        }
        self.count("partition");
        let how = [Cut::Known, Cut::Vanish, Cut::Wait][self.draw(3).unwrap_or(0)];
        let until = self.now + time;
        self.links[link].partition = Some(Partition { until, how });
        if self.dice.chance(0.5) {
            self.stores[self.links[link].node].watchers.retain(|(_, watcher)| *watcher != link);
        }
        self.at(until, Happening::Reconnect { link, restarted: false });
    }

    fn pause(&mut self, process: usize, link: usize, time: u64) {
        if self.is_paused(process) || self.orders[process].is_some() {
            return;
        }
        self.count("pause");
        self.pauses[process].from = self.now;
        self.pauses[process].until = self.now + time;
        // The links of a life share its clock.
        self.links[link].clock.stop_at(self.now);
        self.at(self.now + time, Happening::Resume { process });
    }

    pub(crate) fn resume(&mut self, process: usize) {
        for link in self.links.iter().filter(|link| link.process == process) {
            link.clock.resume();
        }
        let waiting = std::mem::take(&mut self.pauses[process].waiting);
        self.wakers.extend(waiting);
        let Some(link) = self.links.iter().rposition(|link| link.process == process) else { return };
        self.note(Who::Link(link), "goes on", (0, 0));
        // Timers that became due in the meantime fire immediately, or a little later.
        if self.dice.chance(0.5) {
            self.notify_later(link, Notification::All(MissedWakes::Lagged));
        }
    }

    fn restart(&mut self, node: usize, how: Trouble, time: u64) {
        if self.is_too_much(node) {
            return;
        }
        let before = self.kept(node);
        match how {
            Trouble::RestartEmpty => {
                self.count("restart empty");
                self.stores[node].data.clear();
            }
            Trouble::RestartOld => {
                self.count("restart old");
                self.stores[node].data = self.stores[node].snapshot.clone();
            }
            _ => self.count("restart"),
        }
        if how != Trouble::RestartKept {
            self.oracle.counters_in_doubt();
        }
        if self.dice.chance(0.5) {
            self.stores[node].save();
        }
        let down = if self.dice.chance(0.5) { 0 } else { time };
        self.stores[node].down_until = self.now + down;
        self.stores[node].restarted = Some(self.now + down);
        self.stores[node].watchers.clear();
        let Self { oracle, stores, now, .. } = self;
        oracle.data_changed(*now, node, &before, stores);
        for link in (0..self.links.len()).filter(|link| self.links[*link].node == node).collect::<Vec<_>>() {
            let after = down / 1_000 + self.latency();
            let restarted = self.dice.chance(0.7);
            self.links[link].connection += 1;
            self.after(after, Happening::Reconnect { link, restarted });
        }
    }

    /// Returns `true` if this would exceed what a quorum survives: a minority of nodes that may have lost their data.
    fn is_too_much(&self, node: usize) -> bool {
        let Some(quorum) = self.plan.quorum.filter(|quorum| !quorum.durable) else { return false };
        let is_young = |number: &usize| self.stores[*number].age(self.now) < quorum.max_lease;
        (0..self.stores.len()).filter(|number| *number != node).any(|number| is_young(&number))
    }

    fn kept(&self, node: usize) -> StoredBefore {
        let all = |stored: &dyn Fn(&LockName) -> Option<Stored>| {
            self.plan.names.iter().filter_map(|name| Some((name.clone(), stored(name)?))).collect()
        };
        let here = all(&|name| self.stores[node].stored(self.now, name));
        StoredBefore { here, decided: all(&|name| self.stores.stored(self.now, name)) }
    }

    /// Ends a process. The stores notice this. Its links start with this one.
    pub(crate) fn disconnect(&mut self, link: usize) {
        for link in link..link + self.stores.len() {
            self.links[link].dead = true;
            self.links[link].connection += 1;
            self.stores[self.links[link].node].watchers.retain(|(_, watcher)| *watcher != link);
        }
    }

    /// Ends all faults for good.
    pub(crate) fn heal(&mut self) {
        self.note(Who::Store(0), "heals", (0, 0));
        self.calm = true;
        for node in 0..self.stores.len() {
            (self.stores[node].paused_until, self.stores[node].down_until) = (0, 0);
            // Nodes whose clocks have drifted apart do not agree on a token.
            let step = self.stores[node].clock.step_back();
            if self.plan.quorum.is_some() && step != 0 {
                self.oracle.stepped_back = true;
                self.step_clock(node, step);
            }
        }
        for process in 0..self.plan.processes {
            if self.is_paused(process) {
                self.pauses[process].until = self.now;
                self.resume(process);
            }
        }
        for link in 0..self.links.len() {
            if let Some(cut) = &mut self.links[link].partition {
                cut.until = self.now;
            }
            self.at(self.now, Happening::Reconnect { link, restarted: false });
        }
    }
}
