//! A call of the backend on its way: answered once, by the store, by time, or by the end of its runtime.
//!
//! Its time-out is kept outside of the runtime that carries it, in a list that every worker looks at: a runtime that
//! is not driven (a current-thread one between two `block_on`s) would otherwise leave the machine without an answer,
//! and the name dead for the whole process.

use super::{Cell, Driver, io::Op, quiet::Active};
use crate::{
    backend::{Applied, BackendError, BackendErrorKind},
    machine::Event,
    sync::{
        Handle, Id, Mutex,
        atomic::{AtomicBool, Ordering},
        lock,
    },
    time::Moment,
};
use futures_util::FutureExt;
use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::sync::Notify;

pub(super) type Answers = Vec<(Arc<Cell>, Event)>;

/// A call, and the runtime in which it was polled first: its timers and sockets belong there, so it stays there.
pub(super) struct Call {
    driver: Arc<Driver>,
    pending: Arc<Pending>,
    future: Pin<Box<dyn Future<Output = Answers> + Send>>,
    pub(super) runtime: Option<Id>,
}

/// What everybody may know of a call.
#[derive(Debug)]
pub(super) struct Pending {
    id: u64,
    ops: Vec<(Arc<Cell>, Op)>,
    timeout: Duration,
    due: Mutex<Option<Moment>>,
    answered: AtomicBool,
    /// Rung when its time is over.
    over: Notify,
    runtime: Option<Id>,
    active: Mutex<Option<Active>>,
}

impl Pending {
    /// `true` for the one who answers.
    fn answer(&self) -> bool {
        !self.answered.swap(true, Ordering::AcqRel)
    }

    fn unknown(&self) -> Answers {
        self.ops.iter().map(|(cell, op)| (cell.clone(), op.unknown())).collect()
    }

    fn timed_out(&self) -> Answers {
        let error = Arc::new(BackendError::new(
            BackendErrorKind::Timeout,
            Applied::Unknown,
            format!("the store did not answer within {:?}", self.timeout),
        ));
        for (cell, op) in &self.ops {
            op.note(cell, &error);
        }
        self.unknown()
    }

    fn take_active(&self) -> Option<Active> {
        lock(&self.active).take()
    }
}

/// The calls that were not answered at once, by the time when they have to be.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    calls: BTreeMap<(Moment, u64), Arc<Pending>>,
}

impl Deadlines {
    pub(super) fn next(&self) -> Option<Moment> {
        self.calls.first_key_value().map(|((at, _), _)| *at)
    }
}

impl Call {
    /// Polls once in place: the answers, if they are there at once.
    pub(super) fn poll_in_place(&mut self) -> Option<Answers> {
        match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answers) => {
                self.pending.answer();
                Some(answers)
            }
            Poll::Pending => None,
        }
    }

    /// Waits for the answer. The call counts as active until what comes with it is dropped: after its delivery.
    pub(super) async fn answer(mut self) -> (Answers, Option<Active>) {
        let answers = tokio::select! {
            biased;
            answers = &mut self.future => Some(answers),
            () = self.pending.over.notified() => None,
        };
        if !self.pending.answer() {
            return (Vec::new(), None);
        }
        let answers = answers.unwrap_or_else(|| {
            // Ended before the machine hears of it, or a second request would begin beside this one.
            self.future = Box::pin(std::future::pending());
            self.pending.timed_out()
        });
        (answers, self.pending.take_active())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(due) = lock(&self.pending.due).take() {
            lock(&self.driver.deadlines).calls.remove(&(due, self.pending.id));
        }
        // With its runtime, for example: for the next worker, the answer is unknown.
        if self.pending.answer() {
            let lost = self.pending.unknown();
            self.driver.leave(|letters| letters.answers.extend(lost));
        }
        drop(self.pending.take_active());
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("pending", &self.pending).finish_non_exhaustive()
    }
}

impl Driver {
    pub(super) fn new_call(
        self: &Arc<Self>,
        ops: Vec<(Arc<Cell>, Op)>,
        timeout: Duration,
        work: impl Future<Output = Answers> + Send + 'static,
    ) -> Call {
        let asked = ops.clone();
        // A backend that panics must not take the machine's answer with it.
        let future = AssertUnwindSafe(work).catch_unwind().map(move |answers| match answers {
            Ok(answers) => answers,
            Err(_) => asked.into_iter().map(|(cell, op)| (cell, op.unknown())).collect(),
        });
        let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
        let pending = Arc::new(Pending {
            id: self.fresh_id(),
            ops,
            timeout,
            due: Mutex::new(None),
            answered: AtomicBool::new(false),
            over: Notify::new(),
            runtime,
            active: Mutex::new(Some(self.active())),
        });
        Call { driver: self.clone(), pending, future: Box::pin(future), runtime }
    }

    /// From now on the time of the call counts.
    pub(super) fn timed(&self, call: Call) -> Call {
        let now = self.clock.now();
        let due = now + call.pending.timeout;
        *lock(&call.pending.due) = Some(due);
        let next = {
            let mut deadlines = lock(&self.deadlines);
            deadlines.calls.insert((due, call.pending.id), call.pending.clone());
            deadlines.next()
        };
        if let Some(next) = next.filter(|next| *next == due || *next <= now) {
            self.alarms.move_to(next, now);
        }
        call
    }

    /// Ends the calls whose time is over. Those of other runtimes, which may not be driven, are answered for them.
    pub(super) fn time_out_calls(self: &Arc<Self>, here: Id) {
        let now = self.clock.now();
        let due = {
            let mut deadlines = lock(&self.deadlines);
            let later = deadlines.calls.split_off(&(now + Duration::from_micros(1), 0));
            std::mem::replace(&mut deadlines.calls, later)
        };
        for pending in due.into_values() {
            let elsewhere = pending.runtime.is_some_and(|id| id != here);
            if elsewhere && pending.answer() {
                self.deliver(pending.timed_out());
                drop(pending.take_active());
            }
            pending.over.notify_one();
        }
    }
}
