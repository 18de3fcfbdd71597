//! Totals that survive server restarts. A restarted server counts from 0, but the totals keep growing.

use std::collections::{BTreeMap, VecDeque};

/// The sum of a counter over all servers.
#[derive(Debug, Default)]
pub(super) struct Sum {
    ended: u64,
    latest: BTreeMap<String, (u32, u64)>,
}

impl Sum {
    /// Records the counter of `server`, whose process id is `pid`.
    pub(super) fn record(&mut self, server: &str, pid: u32, count: u64) {
        match self.latest.get_mut(server) {
            Some((known, latest)) if *known == pid => *latest = count,
            Some(entry) => {
                self.ended += entry.1;
                *entry = (pid, count);
            }
            None => drop(self.latest.insert(server.into(), (pid, count))),
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.ended + self.latest.values().map(|(_, count)| count).sum::<u64>()
    }
}

/// The rate of a counter over a time window.
#[derive(Debug)]
pub(super) struct Rate {
    window: u64,
    readings: VecDeque<(u64, u64)>,
}

impl Rate {
    /// Creates a rate over the last `window` milliseconds.
    pub(super) fn over(window: u64) -> Self {
        Self { window, readings: VecDeque::new() }
    }

    /// Records the counter at the time `at`, in milliseconds, and returns the rate per second.
    pub(super) fn record(&mut self, at: u64, count: u64) -> f64 {
        self.readings.push_back((at, count));
        while self.readings.get(1).is_some_and(|(next, _)| next + self.window <= at) {
            self.readings.pop_front();
        }
        let (from, before) = self.readings[0];
        let elapsed = at.saturating_sub(from);
        if elapsed == 0 { 0.0 } else { count.saturating_sub(before) as f64 * 1e3 / elapsed as f64 }
    }
}

/// The growth of a count since a strategy switch. The count can decrease; only increases are added.
#[derive(Debug, Default)]
pub(super) struct SinceSwitch {
    latest: u64,
    since: u64,
    before: u64,
}

impl SinceSwitch {
    /// Marks a switch. All growth so far counts as growth before it.
    pub(super) fn restart(&mut self) {
        self.before += std::mem::take(&mut self.since);
    }

    /// Records the count.
    pub(super) fn record(&mut self, count: u64) {
        self.since += count.saturating_sub(self.latest);
        self.latest = count;
    }

    /// Returns the growth since the switch.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// Returns the growth before the switch.
    pub(super) fn before(&self) -> u64 {
        self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_continues_when_a_server_restarts() {
        let mut sum = Sum::default();
        sum.record("shop-1", 10, 7);
        sum.record("shop-2", 11, 1);
        sum.record("shop-1", 10, 9);
        assert_eq!(sum.total(), 10);
        sum.record("shop-1", 12, 2);
        assert_eq!(sum.total(), 12, "9 from the old process, 2 from the new one, 1 from the other server");
    }

    #[test]
    fn rate_covers_its_window() {
        let mut rate = Rate::over(2_000);
        assert_eq!(rate.record(0, 0), 0.0);
        assert_eq!(rate.record(1_000, 10), 10.0);
        assert_eq!(rate.record(2_000, 20), 10.0);
        assert_eq!(rate.record(3_000, 60), 25.0, "50 orders in the last two seconds");
        assert_eq!(rate.record(9_000, 60), 0.0);
    }

    #[test]
    fn growth_before_a_switch_is_counted_separately() {
        let mut count = SinceSwitch::default();
        count.record(5);
        assert_eq!((count.since(), count.before()), (5, 0));
        count.restart();
        count.record(6);
        assert_eq!((count.since(), count.before()), (1, 5));
        count.record(2);
        assert_eq!(count.since(), 1, "a decreasing count must not add growth");
        count.record(4);
        assert_eq!(count.since(), 3);
    }
}
