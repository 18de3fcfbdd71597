//! Jumps of this node's clock relative to the server's.

use super::state::RunLoop;
use crate::observer::CronEvent;

/// The change in the offset between two heartbeats above which it counts as a jump, in seconds. A
/// slow reply changes the estimate of the server's clock by less.
const MAX_CHANGE: f64 = 5.0;

/// The offset after the last heartbeat, in seconds.
#[derive(Debug, Default)]
pub(super) struct ClockOffset(Option<f64>);

impl ClockOffset {
    /// Records the offset after a heartbeat. Returns its change if that is a jump.
    fn changed(&mut self, offset: f64) -> Option<f64> {
        let by = offset - self.0.replace(offset)?;
        (by.abs() > MAX_CHANGE).then_some(by)
    }
}

impl RunLoop {
    /// Reports a jump since the last heartbeat.
    pub(super) fn compare_clocks(&mut self) {
        let Some(offset) = self.shared.node.ledger.clock_offset() else { return };
        if let Some(by) = self.clock_offset.changed(offset) {
            self.shared.node.observers.notify(|group| CronEvent::ClockChanged { group, by });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jump_is_reported_once_and_drift_is_not() {
        let mut clock = ClockOffset::default();
        let changes = [100.0, 104.0, 108.0, 208.0, 208.0, 8.0].map(|offset| clock.changed(offset));
        assert_eq!(changes, [None, None, None, Some(100.0), None, Some(-200.0)]);
    }
}
