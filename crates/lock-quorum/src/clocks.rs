//! Each node's clock, estimated from its replies.
//!
//! Each node has its own estimate. If a request's deadline came from another node's clock, the node could execute the
//! request long after its sender gave up.

use lock_core::clock::{Moment, UtcTime};
use std::time::Duration;

/// Estimates of the clocks of all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeClocks {
    /// Microseconds by which each node's clock is ahead of this process's clock; `None` if unknown.
    offsets: Vec<Option<i64>>,
}

impl NodeClocks {
    /// Creates estimates for this many nodes, all of them unknown.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { offsets: vec![None; nodes] }
    }

    /// Updates a node's estimate from a request that was sent and answered at these moments, and executed at this time
    /// by the node's clock. The two moments bound the offset, and the estimate moves only as far as the bounds require.
    /// A slow reply therefore does not spoil a good estimate, and the estimate follows a clock step immediately.
    pub fn learn(&mut self, node: usize, sent: Moment, answered: Moment, executed: UtcTime) {
        let executed = signed(executed.as_micros());
        let (least, most) = (executed - signed(answered.as_micros()), executed - signed(sent.as_micros()));
        let offset = &mut self.offsets[node];
        let estimate = offset.unwrap_or_else(|| least + (most - least) / 2);
        *offset = Some(estimate.clamp(least.min(most), most));
    }

    /// Returns this node's time, or the median for a node that has never answered. Returns `None` until a node has
    /// answered.
    #[must_use]
    pub fn of(&self, node: usize, now: Moment) -> Option<UtcTime> {
        let offset = self.offsets[node].or_else(|| self.median_offset())?;
        Some(shifted(now, offset))
    }

    /// Returns the quorum's time, which is the median time of the nodes that have answered.
    #[must_use]
    pub fn median(&self, now: Moment) -> Option<UtcTime> {
        self.median_offset().map(|offset| shifted(now, offset))
    }

    fn median_offset(&self) -> Option<i64> {
        let mut known: Vec<_> = self.offsets.iter().copied().flatten().collect();
        known.sort_unstable();
        known.get(known.len().checked_sub(1)? / 2).copied()
    }
}

/// Returns the latest time at which a request with this budget, counted from `now`, may be executed.
#[must_use]
pub fn not_after(now: UtcTime, budget: Duration) -> UtcTime {
    now + budget
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

fn shifted(now: Moment, offset: i64) -> UtcTime {
    UtcTime::from_micros(now.as_micros().saturating_add_signed(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::START + Duration::from_millis(millis)
    }

    #[test]
    fn median_ignores_one_wrong_clock() {
        let mut clocks = NodeClocks::new(3);
        assert_eq!(clocks.median(at(0)), None);
        for (node, seconds) in [(0, 100), (1, 3600), (2, 101)] {
            clocks.learn(node, at(0), at(0), UtcTime::from_millis(seconds * 1000));
        }
        assert_eq!(clocks.median(at(1000)), Some(UtcTime::from_millis(102_000)));
        assert_eq!(clocks.of(1, at(1000)), Some(UtcTime::from_millis(3_601_000)));
    }

    #[test]
    fn slow_reply_does_not_spoil_an_estimate() {
        let mut clocks = NodeClocks::new(1);
        clocks.learn(0, at(0), at(0), UtcTime::from_millis(50_000));
        clocks.learn(0, at(1000), at(6000), UtcTime::from_millis(51_000));
        assert_eq!(clocks.of(0, at(6000)), Some(UtcTime::from_millis(56_000)));
    }

    #[test]
    fn clock_step_is_followed_immediately() {
        let mut clocks = NodeClocks::new(1);
        clocks.learn(0, at(0), at(0), UtcTime::from_millis(50_000));
        clocks.learn(0, at(10), at(12), UtcTime::from_millis(20_011));
        let seen = clocks.of(0, at(12)).unwrap();
        assert!(seen >= UtcTime::from_millis(20_011) && seen <= UtcTime::from_millis(20_013), "{seen:?}");
    }
}
