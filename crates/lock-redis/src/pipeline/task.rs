//! The connection's task, and the calls that it polls. It finishes calls, completes operations, and sends those
//! submitted in the meantime. A call is a future of the client library, whose first poll is made by the sender.

use super::{
    State,
    exchange::{Answered, exchange},
    operation::{Submissions, complete, contained, fail, is_worth_sending, leave_out, what},
    queue::Queued,
};
use crate::{
    client::Client,
    connection::{Dialled, GRACE, NO_ANSWER_AFTER},
    error::runtime_ended,
    shared::Shared,
};
use futures_util::{future::BoxFuture, task::AtomicWaker};
use lock_core::{
    __private::{lock, wake_together},
    backend::Submission,
};
use std::{
    future::{self, Future},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep, timeout_at};

/// The maximum number of rounds in a turn, after which the runtime's other tasks have their turn.
const MAX_ROUNDS: usize = 32;

/// The interval of checks for unanswered calls.
const LOOK: Duration = Duration::from_secs(10);

/// The owner of the calls in progress. Dropping it completes their operations as unknown.
pub(super) struct Task<C: Client> {
    pub(super) shared: Arc<Shared<C>>,
    pub(super) state: Arc<Mutex<State>>,
    pub(super) waker: Arc<AtomicWaker>,
    number: u64,
    /// An earlier submission had to wait for another task, and waits for a connection since then.
    begun: Instant,
    calls: Vec<Call>,
    /// The wait for the next connection, while operations are queued and there is none.
    reconnection: Option<BoxFuture<'static, Reconnection>>,
    /// The next check for unanswered calls.
    look: Pin<Box<Sleep>>,
}

/// The end of a wait for a connection.
enum Reconnection {
    Connected,
    /// The first operation has waited long enough.
    Over,
    /// The dialling task has ended.
    Never,
}

impl<C: Client> Task<C> {
    pub(super) fn new(
        shared: Arc<Shared<C>>,
        state: Arc<Mutex<State>>,
        waker: Arc<AtomicWaker>,
        number: u64,
    ) -> Self {
        let (calls, reconnection, look) = (Vec::new(), None, Box::pin(sleep(LOOK)));
        Self { shared, state, waker, number, begun: Instant::now(), calls, reconnection, look }
    }

    fn state(&self) -> Option<MutexGuard<'_, State>> {
        state_of(&self.state, self.number)
    }

    /// Begins a turn, and returns `false` if this task was replaced. The waker is registered before any other state is
    /// read, since a wake-up in between would be missed otherwise, and under the mutex, so that it cannot replace that
    /// of a later task.
    fn begin_turn(&self, context: &Context<'_>) -> bool {
        let Some(mut state) = self.state() else { return false };
        self.waker.register(context.waker());
        state.in_turn = true;
        true
    }

    /// Records that calls have ended. Those of a replaced task are forgotten.
    fn end_calls(&self, calls: usize) {
        if let Some(mut state) = self.state() {
            state.queue.end_calls(calls);
        }
    }

    /// Takes over the calls that were sent in place, and completes the operations of finished
    /// calls.
    fn finish_calls(&mut self) {
        if let Some(mut state) = state_of(&self.state, self.number) {
            self.calls.append(&mut state.sent_in_place);
        }
        let mut answered = Vec::new();
        self.calls.retain_mut(|call| {
            let answers = call.poll();
            let goes_on = answers.is_none();
            answered.extend(answers);
            goes_on
        });
        self.end_calls(answered.len());
        wake_together(|| {
            for (submission, reply) in answered.into_iter().flatten() {
                if let Some((submission, reply)) = self.shared.redirect(submission, reply) {
                    complete(submission, reply);
                }
            }
        });
    }

    /// Sends as many calls as allowed.
    fn send(&mut self) {
        let Some(dialled) = self.shared.connection.standing() else { return };
        self.reconnection = None;
        loop {
            let Some(queued) = self.state().and_then(|mut state| state.queue.next_call()) else { return };
            let submissions = self.worth_sending(queued);
            if submissions.is_empty() {
                self.end_calls(1);
                continue;
            }
            let mut call = Call::new(&self.shared, dialled.clone(), submissions, &self.waker);
            call.send_in_place();
            self.calls.push(call);
        }
    }

    /// Returns the operations that are worth sending, and fails the others.
    fn worth_sending(&self, queued: Vec<Queued<Submission>>) -> Vec<Submission> {
        let (server, now) = (self.shared.clock.now(), Instant::now());
        let (mut submissions, mut left_out) = (Vec::with_capacity(queued.len()), Vec::new());
        for Queued { operation, since } in queued {
            match is_worth_sending(&operation, server, now - since) {
                true => submissions.push(operation),
                false => left_out.push(operation),
            }
        }
        leave_out(left_out);
        submissions
    }

    /// Fails the operations that have waited too long for a connection. Ready once there is a connection again.
    fn poll_reconnection(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let reconnection = match &mut self.reconnection {
                Some(reconnection) => reconnection,
                None => {
                    let Some(oldest) = lock(&self.state).queue.oldest() else { return Poll::Pending };
                    let until = oldest.max(self.begun) + GRACE;
                    let mut changes = self.shared.connection.changes();
                    self.reconnection.insert(Box::pin(async move {
                        match timeout_at(until, changes.wait_for(Option::is_some)).await {
                            Ok(Ok(_)) => Reconnection::Connected,
                            Ok(Err(_)) => Reconnection::Never,
                            Err(_) => Reconnection::Over,
                        }
                    }))
                }
            };
            let end = ready!(reconnection.as_mut().poll(context));
            self.reconnection = None;
            let (failed, is_over) = match end {
                Reconnection::Connected => return Poll::Ready(()),
                Reconnection::Over => (lock(&self.state).queue.take_older_than(GRACE, Instant::now()), true),
                Reconnection::Never => (lock(&self.state).queue.take_all(), false),
            };
            for submission in failed {
                let what = what(submission.operation());
                let error = match is_over {
                    true => self.shared.connection.not_connected(what),
                    false => runtime_ended(what),
                };
                fail(submission, error);
            }
        }
    }

    /// Abandons calls that have had no reply for [`NO_ANSWER_AFTER`] on a live connection.
    fn give_up_calls(&mut self, context: &mut Context<'_>) {
        while self.look.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            let is_old = |call: &mut Call| now >= call.since + NO_ANSWER_AFTER;
            let given_up: Vec<_> = self.calls.extract_if(.., is_old).collect();
            self.end_calls(given_up.len());
            drop(given_up);
            self.look.as_mut().reset(now + LOOK);
        }
    }
}

/// Returns the state, unless the task with this number was replaced.
fn state_of(state: &Mutex<State>, number: u64) -> Option<MutexGuard<'_, State>> {
    Some(lock(state)).filter(|state| state.task == number)
}

impl<C: Client> Future for Task<C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let task = &mut *self;
        if !task.begin_turn(context) {
            return Poll::Ready(());
        }
        for _ in 0..MAX_ROUNDS {
            task.finish_calls();
            task.send();
            task.give_up_calls(context);
            let connected = task.shared.connection.is_up() || task.poll_reconnection(context).is_ready();
            let is_answered = task.calls.iter().any(Call::is_ready);
            // From here on, submitters wake the task.
            let waits = task.reconnection.is_some();
            if !is_answered && task.state().is_none_or(|mut state| state.end_turn(connected, waits)) {
                return Poll::Pending;
            }
        }
        if let Some(mut state) = task.state() {
            state.in_turn = false;
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<C: Client> Drop for Task<C> {
    fn drop(&mut self) {
        for call in self.calls.drain(..) {
            contained(|| drop(call));
        }
    }
}

/// A call in progress. Dropping it completes each of its operations with an unknown outcome.
pub(super) struct Call {
    exchange: BoxFuture<'static, Vec<Answered>>,
    progress: Arc<Progress>,
    pub(super) since: Instant,
}

/// The waker of a call.
struct Progress {
    /// Set when a poll may make progress.
    ready: AtomicBool,
    /// The waker of the connection's task.
    task: Arc<AtomicWaker>,
}

impl Wake for Progress {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Stored before the task is woken, since the task reads it.
        self.ready.store(true, Ordering::SeqCst);
        self.task.wake();
    }
}

impl Call {
    /// Creates a call for these operations. It is not sent before its first poll.
    pub(super) fn new<C: Client>(
        shared: &Arc<Shared<C>>,
        dialled: Arc<Dialled<C::Connection>>,
        submissions: Vec<Submission>,
        task: &Arc<AtomicWaker>,
    ) -> Self {
        let (shared, submissions) = (shared.clone(), Submissions::new(submissions));
        let exchange = Box::pin(async move { exchange(&shared, &dialled, submissions).await });
        let progress = Arc::new(Progress { ready: AtomicBool::new(true), task: task.clone() });
        Self { exchange, progress, since: Instant::now() }
    }

    /// Polls if progress is possible, and returns the replies once they have arrived.
    pub(super) fn poll(&mut self) -> Option<Vec<Answered>> {
        if !self.progress.ready.swap(false, Ordering::SeqCst) {
            return None;
        }
        let waker = Waker::from(self.progress.clone());
        let mut answers = None;
        // If the client library panics, the operations are dropped.
        let mut panicked = true;
        contained(|| {
            let polled = self.exchange.as_mut().poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(answered) = polled {
                answers = Some(answered);
            }
            panicked = false;
        });
        if panicked { Some(Vec::new()) } else { answers }
    }

    /// Sends the call from outside the task. An immediate reply is left to the task.
    pub(super) fn send_in_place(&mut self) {
        if let Some(answers) = self.poll() {
            self.exchange = Box::pin(future::ready(answers));
            self.progress.ready.store(true, Ordering::SeqCst);
        }
    }

    /// Returns `true` if a poll may make progress.
    pub(super) fn is_ready(&self) -> bool {
        self.progress.ready.load(Ordering::SeqCst)
    }
}
