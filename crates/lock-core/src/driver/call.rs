//! Operations that are backend futures: each is polled once in place, and then by a worker.

use super::{
    activity::ActivityGuard,
    deadlines::TimedCall,
    entry::LockEntry,
    op::{Answers, Op, timed_out},
    shared::Shared,
    waker_set::contained,
    work_queue::{Answered, StartedCall},
};
use crate::{
    sync::{
        Handle, Id, Mutex,
        atomic::{AtomicBool, Ordering},
        lock, rank,
    },
    time::Moment,
};
use futures_util::FutureExt;
use std::{future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// A call and the runtime that polled it first. Its timers and sockets belong to that runtime, so it stays there.
pub(super) struct Call {
    shared: Arc<Shared>,
    state: Arc<CallState>,
    future: Pin<Box<dyn Future<Output = Answers> + Send>>,
    due: Option<Moment>,
}

struct CallState {
    id: u64,
    ops: Vec<(Arc<LockEntry>, Op)>,
    timeout: Duration,
    answered: AtomicBool,
    /// Notified when the call has timed out.
    over: Notify,
    runtime: Option<Id>,
    active: Mutex<rank::CallActivity, Option<ActivityGuard>>,
}

impl CallState {
    /// Returns `true` only to the first caller, which then delivers the reply.
    fn answer(&self) -> bool {
        !self.answered.swap(true, Ordering::AcqRel)
    }

    fn unknown(&self) -> Answers {
        self.ops.iter().map(|(entry, op)| (entry.clone(), op.unknown())).collect()
    }

    fn timed_out(&self) -> Answers {
        let error = timed_out(self.timeout);
        for (entry, op) in &self.ops {
            op.keep_error(entry, &error);
        }
        self.unknown()
    }

    fn take_active(&self) -> Option<ActivityGuard> {
        lock(&self.active).take()
    }
}

impl TimedCall for CallState {
    /// Calls in this runtime end themselves. Calls in other runtimes, which may not be driven, are answered here.
    fn expire(&self, here: Id) -> Option<Answered> {
        let elsewhere = self.runtime.is_some_and(|runtime| runtime != here);
        let answered = (elsewhere && self.answer()).then(|| (self.timed_out(), self.take_active()));
        self.over.notify_one();
        answered
    }
}

impl Call {
    /// Starts the call's timeout, and returns the call for a worker to poll.
    pub(super) fn started(mut self) -> StartedCall {
        let now = self.shared.clock.now();
        let due = now + self.state.timeout;
        self.due = Some(due);
        self.shared.set_deadline(due, self.state.id, self.state.clone(), now);
        StartedCall { runtime: self.state.runtime, answer: Box::pin(self.answer()) }
    }

    /// Waits for the reply. The call counts as active until the returned guard is dropped, after the delivery.
    async fn answer(mut self) -> Answered {
        let answers = tokio::select! {
            biased;
            answers = &mut self.future => Some(answers),
            () = self.state.over.notified() => None,
        };
        if !self.state.answer() {
            return (Vec::new(), None);
        }
        let answers = answers.unwrap_or_else(|| {
            // Dropped before the machine learns of the timeout: otherwise a second request could run concurrently
            // with this one.
            let future = std::mem::replace(&mut self.future, Box::pin(std::future::pending()));
            // A panic would lose the reply.
            contained("a store", || drop(future));
            self.state.timed_out()
        });
        (answers, self.state.take_active())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(due) = self.due {
            self.shared.clear_deadline(due, self.state.id);
        }
        // Dropped, for example with its runtime: a later worker delivers the unknown outcome.
        if self.state.answer() {
            let lost = self.state.unknown();
            self.shared.defer(|work| work.answers.extend(lost));
        }
        drop(self.state.take_active());
    }
}

impl Shared {
    /// Creates a call in the current runtime. If the backend panics, the outcomes are unknown.
    pub(super) fn call(
        self: &Arc<Self>,
        ops: Vec<(Arc<LockEntry>, Op)>,
        timeout: Duration,
        work: impl Future<Output = Answers> + Send + 'static,
    ) -> Call {
        let asked = ops.clone();
        let future = AssertUnwindSafe(work).catch_unwind().map(move |answers| match answers {
            Ok(answers) => answers,
            Err(_) => asked.into_iter().map(|(entry, op)| (entry, op.unknown())).collect(),
        });
        let state = CallState {
            id: self.fresh_id(),
            ops,
            timeout,
            answered: AtomicBool::new(false),
            over: Notify::new(),
            runtime: Handle::try_current().ok().map(|runtime| runtime.id()),
            active: Mutex::new(Some(self.activity.guard())),
        };
        Call { shared: self.clone(), state: Arc::new(state), future: Box::pin(future), due: None }
    }
}
