//! Unanswered calls, sorted by deadline.

use super::work_queue::Answered;
use crate::{sync::Id, time::Moment};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// A call that can time out.
pub(super) trait TimedCall: Send + Sync {
    /// Ends the call because its deadline has passed. Returns the replies that the caller has to deliver. Returns
    /// `None` if the call is already answered, or if a task in this runtime waits for it and delivers the replies.
    fn expire(&self, here: Id) -> Option<Answered>;
}

#[derive(Default)]
pub(super) struct Deadlines {
    calls: BTreeMap<(Moment, u64), Arc<dyn TimedCall>>,
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
        self.calls.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Arc<dyn TimedCall>> {
        if self.next().is_none_or(|next| next > now) {
            return Vec::new();
        }
        let later = self.calls.split_off(&(now + Duration::from_micros(1), 0));
        std::mem::replace(&mut self.calls, later).into_values().collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<Arc<dyn TimedCall>> {
        std::mem::take(&mut self.calls).into_values().collect()
    }
}

impl fmt::Debug for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadlines").field("calls", &self.calls.len()).finish()
    }
}
