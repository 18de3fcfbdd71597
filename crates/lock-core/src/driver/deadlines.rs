//! Unanswered calls, sorted by deadline.

use super::work_queue::Answered;
use crate::{fifo_map::FifoMap, sync::Id, time::Moment};
use std::{fmt, sync::Arc};

/// A call that can time out.
pub(super) trait TimedCall: Send + Sync {
    /// Ends the call because its deadline has passed. Returns the replies that the caller has to deliver. Returns
    /// `None` if the call is already answered, or if a task in this runtime waits for it and delivers the replies.
    fn expire(&self, here: Id) -> Option<Answered>;
}

/// Most calls have the same timeout and are answered in the order in which they were sent.
#[derive(Default)]
pub(super) struct Deadlines {
    calls: FifoMap<(Moment, u64), Arc<dyn TimedCall>>,
}

impl Deadlines {
    /// Adds a call and returns the earliest of all deadlines.
    pub(super) fn insert(&mut self, due: Moment, id: u64, call: Arc<dyn TimedCall>) -> Moment {
        self.calls.insert((due, id), call);
        self.next().unwrap_or(due)
    }

    /// Removes a call. The caller drops it after releasing the mutex.
    pub(super) fn remove(&mut self, due: Moment, id: u64) -> Option<Arc<dyn TimedCall>> {
        self.calls.remove(&(due, id))
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.calls.front().map(|((at, _), _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Arc<dyn TimedCall>> {
        let mut due = Vec::new();
        while self.next().is_some_and(|next| next <= now) {
            due.extend(self.calls.pop_front().map(|(_, call)| call));
        }
        due
    }

    pub(super) fn take_all(&mut self) -> Vec<Arc<dyn TimedCall>> {
        self.take_due(Moment::NEVER)
    }
}

impl fmt::Debug for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadlines").field("calls", &self.calls.len()).finish()
    }
}
