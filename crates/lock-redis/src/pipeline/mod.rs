//! Batches acquisitions, renewals and releases over one connection, so that many operations need few calls.
//!
//! ```text
//!   submit ──▶ queue ──▶ call ──▶ exchange ──▶ the client library
//!                ▲         │
//!                └─ task ◀─┘ replied: completes the operations and sends those submitted meanwhile
//! ```
//!
//! While no call is in progress, `submit` sends the command itself: it polls the client library's
//! future once, which hands the command to the library, and then passes the call on to the
//! background task. From then on, nothing depends on the caller.
//!
//! The mutex guards plain data. Neither the client library nor completions are called while it is held.

mod exchange;
mod operation;
mod queue;
mod task;

pub(crate) use exchange::alone;
#[cfg(feature = "__internal")]
pub(crate) use operation::in_full;
pub(crate) use operation::{Submissions, complete, fail, is_worth_sending, leave_out, millis, slot, what};

use crate::{client::Client, connection::Home, error::runtime_ended, shared::Shared};
use futures_util::task::AtomicWaker;
use lock_core::{__private::lock, backend::Submission};
use operation::contained;
use queue::Queue;
use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex},
    task::Poll,
};
use task::{Call, Task};
use tokio::{
    runtime::{Handle, Id},
    task::JoinHandle,
    time::Instant,
};

/// Accepts operations for the task of the connection. Dropping it ends the task.
pub(crate) struct RequestPipeline<C: Client> {
    shared: Arc<Shared<C>>,
    state: Arc<Mutex<State>>,
    /// Wakes the task.
    waker: Arc<AtomicWaker>,
    /// Keeps a task running in the runtime of the connection.
    runner: JoinHandle<()>,
}

/// The state shared by submitters and the task.
struct State {
    queue: Queue<Submission>,
    /// Calls that the task has not picked up yet.
    sent_in_place: Vec<Call>,
    /// The number of calls that submitters are sending now. They will be among the former.
    being_sent: usize,
    /// `true` while the task is being polled. It reads this state again before it waits, so it need not be woken.
    in_turn: bool,
    /// The runtime of the task.
    runtime: Id,
    /// The number of the task. A task with another number was replaced when the connection moved to another runtime.
    task: u64,
    /// `true` once no task is left.
    closed: bool,
}

impl State {
    fn new(runtime: Id) -> Self {
        let (queue, sent_in_place, being_sent) = (Queue::default(), Vec::new(), 0);
        // The task is about to have its first turn.
        Self { queue, sent_in_place, being_sent, in_turn: true, runtime, task: 0, closed: false }
    }

    /// Begins another task, which is about to have its first turn. Returns its number.
    fn begin_task(&mut self, runtime: Id) -> u64 {
        self.queue.forget_calls(self.sent_in_place.len() + self.being_sent);
        (self.in_turn, self.runtime, self.task) = (true, runtime, self.task + 1);
        self.task
    }

    /// Ends a turn of the task unless work remains, and returns `true` if it ended. `waits` is set if the task is
    /// waiting for a connection.
    fn end_turn(&mut self, connected: bool, waits: bool) -> bool {
        let left = match connected {
            true => self.queue.may_send(),
            false => !waits && self.queue.oldest().is_some(),
        };
        self.in_turn = left || self.sent_in_place.iter().any(Call::is_ready);
        !self.in_turn
    }

    /// Returns the operations that were not sent, and the calls that were.
    fn close(&mut self) -> (Vec<Submission>, Vec<Call>) {
        self.closed = true;
        (self.queue.take_all(), std::mem::take(&mut self.sent_in_place))
    }
}

impl<C: Client> RequestPipeline<C> {
    /// Starts the task in the runtime of the connection.
    pub(crate) fn start(shared: Arc<Shared<C>>) -> Self {
        let (home, waker) = (shared.connection.home().clone(), Arc::new(AtomicWaker::new()));
        let state = Arc::new(Mutex::new(State::new(home.of_connections().id())));
        let runner = Runner { shared: shared.clone(), state: state.clone(), waker: waker.clone() };
        let runner = home.keeper().spawn(runner.run(home.clone()));
        Self { shared, state, waker, runner }
    }

    /// Accepts an operation.
    pub(crate) fn submit(&self, submission: Submission) {
        let mut state = lock(&self.state);
        if state.closed {
            drop(state);
            return fail_as_ended(submission);
        }
        let idle = !state.in_turn && state.queue.is_idle() && is_in(state.runtime);
        let standing = if idle { self.shared.connection.standing() } else { None };
        let Some(dialled) = standing else {
            let wakes = state.queue.push(submission, Instant::now()) && !state.in_turn;
            drop(state);
            if wakes {
                self.waker.wake();
            }
            return;
        };
        state.queue.begin_call();
        state.being_sent += 1;
        drop(state);
        let mut call = Call::new(&self.shared, dialled, vec![submission], &self.waker);
        call.send_in_place();
        self.leave_to_the_task(call);
    }

    fn leave_to_the_task(&self, call: Call) {
        let mut state = lock(&self.state);
        state.being_sent -= 1;
        if state.closed {
            drop(state);
            return contained(|| drop(call));
        }
        // Its waker may have fired before the task could find the call here.
        let wakes = call.is_ready();
        state.sent_in_place.push(call);
        drop(state);
        if wakes {
            self.waker.wake();
        }
    }
}

/// Returns `true` if the caller is in this runtime.
fn is_in(runtime: Id) -> bool {
    Handle::try_current().is_ok_and(|current| current.id() == runtime)
}

impl<C: Client> Drop for RequestPipeline<C> {
    fn drop(&mut self) {
        self.runner.abort();
    }
}

/// Runs the task in the runtime of the connection: one task until the connection moves, and another one then. Dropping
/// it ends the task, and fails what was not sent.
struct Runner<C: Client> {
    shared: Arc<Shared<C>>,
    state: Arc<Mutex<State>>,
    waker: Arc<AtomicWaker>,
}

impl<C: Client> Runner<C> {
    async fn run(self, home: Arc<Home>) {
        loop {
            let (may_move, runtime) = (home.may_move(), home.of_connections());
            let number = lock(&self.state).begin_task(runtime.id());
            let task = {
                // Its timers are those of its runtime.
                let _inside = runtime.enter();
                Task::new(self.shared.clone(), self.state.clone(), self.waker.clone(), number)
            };
            let task = RunningTask::start(runtime, task);
            if !may_move {
                return task.ended().await;
            }
            tokio::select! {
                () = task.ended() => home.leave_first(),
                () = home.moved() => {}
            }
        }
    }
}

impl<C: Client> Drop for Runner<C> {
    fn drop(&mut self) {
        let (queued, sent) = lock(&self.state).close();
        sent.into_iter().for_each(|call| contained(|| drop(call)));
        queued.into_iter().for_each(fail_as_ended);
    }
}

/// The task in its runtime. Dropping this ends the task here and now, even if that runtime is not driven.
struct RunningTask<C: Client> {
    task: Arc<Mutex<Option<Task<C>>>>,
    handle: JoinHandle<()>,
}

impl<C: Client> RunningTask<C> {
    fn start(runtime: &Handle, task: Task<C>) -> Self {
        let task = Arc::new(Mutex::new(Some(task)));
        let polled = task.clone();
        let turns = poll_fn(move |context| match &mut *lock(&polled) {
            Some(task) => Pin::new(task).poll(context),
            None => Poll::Ready(()),
        });
        Self { task, handle: runtime.spawn(turns) }
    }

    /// Waits for the end of the task, which only ends with its runtime.
    async fn ended(mut self) {
        let _ = (&mut self.handle).await;
    }
}

impl<C: Client> Drop for RunningTask<C> {
    fn drop(&mut self) {
        self.handle.abort();
        // If it is being polled now, its runtime drops it after that.
        let task = self.task.try_lock().ok().and_then(|mut task| task.take());
        drop(task);
    }
}

/// Fails an operation because the task of the connection has ended with its runtime.
pub(crate) fn fail_as_ended(submission: Submission) {
    let error = runtime_ended(what(submission.operation()));
    fail(submission, error);
}
