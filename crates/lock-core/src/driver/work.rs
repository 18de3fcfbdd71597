//! The work of a worker or a timekeeper: the work queue.

use super::{entry::QueueKind, request::IoPolicy, shared::Shared, work_queue::Answered};
use crate::{machine::Event, sync::lock};
use std::sync::Arc;

impl Shared {
    /// Does the work in the queue.
    pub(super) fn do_queued_work(self: &Arc<Self>) {
        let work = self.work.take();
        self.deliver(work.answered, IoPolicy::Inline);
        for (kind, entries) in [(QueueKind::Dropped, work.dropped), (QueueKind::Woken, work.woken)] {
            for entry in entries {
                entry.taken_from_queue(kind);
                self.dispatch(&entry, Event::Tick, IoPolicy::Inline);
            }
        }
        for (entry, request) in work.requests {
            if let Some(event) = self.perform(&entry, request) {
                self.dispatch(&entry, event, IoPolicy::Inline);
            }
        }
    }

    /// Ends every request with an unknown outcome, because there is no worker to perform it or to end it in time.
    pub(super) fn give_up_requests(self: &Arc<Self>, policy: IoPolicy) {
        let (answered, requests) = self.work.take_unfinished();
        self.deliver(answered, policy);
        for (entry, request) in requests {
            self.dispatch(&entry, request.unknown(), policy);
        }
        let submitted = lock(&self.deadlines).take_all();
        self.deliver(submitted.iter().filter_map(|submitted| submitted.expire()).collect(), policy);
    }

    fn deliver(self: &Arc<Self>, answered: Vec<Answered>, policy: IoPolicy) {
        for Answered { entry, event, active } in answered {
            self.dispatch(&entry, event, policy);
            drop(active);
        }
    }
}
