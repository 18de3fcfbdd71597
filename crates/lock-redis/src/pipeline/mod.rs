//! Acquires, renewals and releases over one connection: many at once, in few calls.
//!
//! ```text
//!   submit ──▶ queue ──▶ call ──▶ exchange ──▶ the client library
//!                ▲         │
//!                └─ task ◀─┘ answered: completes the operations, and sends those that were submitted meanwhile
//! ```
//!
//! When nothing is under way, `submit` sends in place: it polls the future of the client library once, which hands the
//! command over, and leaves the call to the task. So nothing depends on the caller afterwards.
//!
//! The mutex of the state guards plain data. Neither the client library nor a completion runs under it.

mod call;
mod exchange;
mod operation;
mod queue;
mod task;

pub(crate) use exchange::alone;
pub(crate) use operation::{Operations, complete, is_worth_sending, leave_out, millis, slot};

use crate::{client::Client, error::runtime_ended, shared::Shared, sync::lock};
use call::Call;
use futures_util::task::AtomicWaker;
use lock_core::backend::Operation;
use operation::{contained, fail, what};
use queue::Queue;
use std::sync::{Arc, Mutex};
use task::Task;
use tokio::{
    runtime::{Handle, Id},
    task::JoinHandle,
    time::Instant,
};

/// Takes operations for the task of the connection, which ends when this is dropped.
pub(crate) struct RequestPipeline<C: Client> {
    shared: Arc<Shared<C>>,
    state: Arc<Mutex<State>>,
    /// Of the task.
    waker: Arc<AtomicWaker>,
    runtime: Id,
    task: JoinHandle<()>,
}

/// What those who submit share with the task.
struct State {
    queue: Queue<Operation>,
    /// Calls that the task does not know yet.
    sent_in_place: Vec<Call>,
    /// The task is being polled, and looks at this again before it waits: nobody has to wake it.
    in_turn: bool,
    /// The task is gone.
    closed: bool,
}

impl State {
    /// Ends a turn of the task, unless something is left to do. `waits` says that it waits for a connection.
    fn end_turn(&mut self, connected: bool, waits: bool) -> bool {
        let left = match connected {
            true => self.queue.may_send(),
            false => !waits && self.queue.oldest().is_some(),
        };
        self.in_turn = left || self.sent_in_place.iter().any(Call::is_ready);
        !self.in_turn
    }

    /// Returns what was not sent, and what was.
    fn close(&mut self) -> (Vec<Operation>, Vec<Call>) {
        self.closed = true;
        (self.queue.take_all(), std::mem::take(&mut self.sent_in_place))
    }
}

impl<C: Client> RequestPipeline<C> {
    /// Starts the task in the current runtime.
    pub(crate) fn start(shared: Arc<Shared<C>>) -> Self {
        // The task has its first turn soon.
        let state =
            State { queue: Queue::default(), sent_in_place: Vec::new(), in_turn: true, closed: false };
        let (state, waker) = (Arc::new(Mutex::new(state)), Arc::new(AtomicWaker::new()));
        let task = tokio::spawn(Task::new(shared.clone(), state.clone(), waker.clone()));
        Self { shared, state, waker, runtime: Handle::current().id(), task }
    }

    /// Takes an operation over. It is answered later, never in this call.
    pub(crate) fn submit(&self, operation: Operation) {
        let mut state = lock(&self.state);
        if state.closed {
            drop(state);
            return fail_elsewhere(operation);
        }
        let idle = !state.in_turn && state.queue.is_idle() && self.is_at_home();
        let standing = if idle { self.shared.connection.standing() } else { None };
        let Some(dialled) = standing else {
            let wakes = state.queue.push(operation, Instant::now()) && !state.in_turn;
            drop(state);
            if wakes {
                self.waker.wake();
            }
            return;
        };
        state.queue.begin_call();
        drop(state);
        let mut call = Call::new(&self.shared, dialled, vec![operation], &self.waker);
        call.send_in_place();
        self.leave_to_the_task(call);
    }

    fn leave_to_the_task(&self, call: Call) {
        let mut state = lock(&self.state);
        if state.closed {
            drop(state);
            return elsewhere(move || drop(call));
        }
        // Its waker may have been called before the task could find it here.
        let wakes = call.is_ready();
        state.sent_in_place.push(call);
        drop(state);
        if wakes {
            self.waker.wake();
        }
    }

    /// Whether this is the runtime of the connection.
    fn is_at_home(&self) -> bool {
        Handle::try_current().is_ok_and(|runtime| runtime.id() == self.runtime)
    }
}

impl<C: Client> Drop for RequestPipeline<C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task of the connection went with its runtime.
pub(crate) fn fail_elsewhere(operation: Operation) {
    elsewhere(move || {
        let error = runtime_ended(what(&operation));
        fail(operation, error);
    });
}

/// Answers outside of the call that submitted: in the runtime of the caller, or in a thread.
fn elsewhere(answer: impl FnOnce() + Send + 'static) {
    let answer = || contained(answer);
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(async move { answer() })),
        Err(_) => drop(std::thread::spawn(answer)),
    }
}
