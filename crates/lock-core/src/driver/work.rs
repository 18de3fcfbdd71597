//! The work of a worker or a timekeeper: the work queue, and the replies to calls.

use super::{
    entry::QueueKind,
    op::{Answers, IoPolicy},
    shared::Shared,
    work_queue::Answered,
};
use crate::{machine::Event, sync::Id};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use std::{future::Future, pin::Pin, sync::Arc};
use tokio::task::coop::unconstrained;

/// The maximum number of replies delivered in one turn.
const MAX_ANSWERS_PER_TURN: usize = 128;

/// The calls that a task waits for.
pub(super) type Calls = FuturesUnordered<Pin<Box<dyn Future<Output = Answered> + Send>>>;

impl Shared {
    /// Does the work in the queue, and adds this runtime's calls to `calls`.
    pub(super) fn do_queued_work(self: &Arc<Self>, runtime: Id, calls: &Calls) {
        let work = self.work.take(runtime);
        self.deliver(work.answers);
        for (kind, entries) in [(QueueKind::Dropped, work.dropped), (QueueKind::Woken, work.woken)] {
            for entry in entries {
                entry.taken_from_queue(kind);
                self.dispatch(&entry, Event::Tick, IoPolicy::Inline);
            }
        }
        for call in work.calls {
            calls.push(call.answer);
        }
        for (entry, op) in work.ops {
            if let Some(op) = self.submit(&entry, op) {
                calls.push(self.new_call(&entry, op).started().answer);
            }
        }
    }

    /// Delivers this reply and further ones that are ready, up to a limit that keeps the turn short.
    pub(super) fn deliver_all(self: &Arc<Self>, first: Answered, calls: &mut Calls) {
        let mut next = Some(first);
        for _ in 0..MAX_ANSWERS_PER_TURN {
            let Some(answered) = next else { return };
            self.deliver_answered(answered);
            next = unconstrained(calls.next()).now_or_never().flatten();
        }
        if let Some(answered) = next {
            self.deliver_answered(answered);
        }
    }

    /// Delivers a call's replies. The call counts as active until then.
    pub(super) fn deliver_answered(self: &Arc<Self>, (answers, active): Answered) {
        self.deliver(answers);
        drop(active);
    }

    fn deliver(self: &Arc<Self>, answers: Answers) {
        for (entry, event) in answers {
            self.dispatch(&entry, event, IoPolicy::Inline);
        }
    }
}
