//! The turn of this process among the processes that wait for a lock.
//!
//! A release wakes all waiting processes at once. If all of them sent a request, the fastest would get the lock, often
//! the same one again, and the requests of the others would slow it down. So each process counts the releases since its
//! own turn. If it has seen as many as there are other processes, it is the one that has waited longest, and sends its
//! request at once. The others wait a moment for each process that they assume is ahead of them.
//!
//! The order is a preference. A process that does not take its turn costs the others a short delay, and then counts as
//! absent until this process loses a turn. Among processes whose distances from the store differ by more than the head
//! start, the nearest is often first in spite of it. Wrong estimates cost time or order, never the lock.

use std::time::Duration;

/// The delay per process that is ahead: enough time for that process's request to reach the store.
const HEAD_START: Duration = Duration::from_millis(1);
/// The maximum number of other processes that are counted. Some of them may only listen, so this limits the number of
/// turns before a process that waits sends its requests at once, and keeps the delay well below the pause of a process
/// that leaves the lock to others.
const MAX_OTHERS: u32 = 5;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct TurnOrder {
    /// Other subscribed processes, as counted by this process's latest release, at most [`MAX_OTHERS`].
    others: u32,
    /// Others that did not take their turn.
    absent: u32,
    /// Releases by others since this process last had the lock, at most [`MAX_OTHERS`].
    seen: u32,
    /// Set by a wake-up that makes this process the first, until a request is granted or finds the lock taken.
    is_first: bool,
}

impl TurnOrder {
    fn ahead(&self) -> u32 {
        self.others.saturating_sub(self.absent).saturating_sub(self.seen)
    }

    /// Records a release by another process. Returns the delay before the next request.
    pub(super) fn released_by_other(&mut self) -> Duration {
        self.seen = MAX_OTHERS.min(self.seen + 1);
        let ahead = self.ahead();
        self.is_first = ahead == 0;
        HEAD_START * ahead
    }

    /// Records that this process got the lock. If it was not its turn, those ahead of it did not want the lock.
    pub(super) fn took(&mut self) {
        if self.seen > 0 {
            self.absent += self.ahead();
        }
        self.seen = 0;
        self.is_first = false;
    }

    /// Records that another process got the lock before this process's request. If this process seemed to be first,
    /// more processes take their turns than it assumed.
    pub(super) fn found_busy(&mut self) {
        if std::mem::take(&mut self.is_first) {
            self.absent = self.absent.saturating_sub(1);
        }
    }

    /// Records the number of other subscribed processes.
    pub(super) fn counted(&mut self, others: u32) {
        self.others = others.min(MAX_OTHERS);
    }
}
