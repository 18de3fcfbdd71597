//! The world of a run: its state behind one mutex, and the task that advances it.
//!
//! It also contains the futures that are not polled while their process is suspended, and those that are dropped after
//! some polls.

use crate::{
    message::{Answer, Request},
    plan::Plan,
    state::State,
    store::Stores,
};
use lock_testkit::{Stream, planted::PlantedBug};
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

#[derive(Debug)]
pub(crate) struct World {
    state: Mutex<State>,
    pub(crate) origin: Instant,
    /// Notified when an event is put at the front of the queue.
    pub(crate) front_changed: Notify,
    /// Notified when a process receives an order, or when there is a violation.
    pub(crate) orders: Vec<Notify>,
    pub(crate) alarm: Notify,
}

impl World {
    pub(crate) fn new(plan: Plan, bug: Option<PlantedBug>, stores: Stores, dice: Stream) -> Arc<Self> {
        let processes = plan.processes;
        let state = State::new(plan, bug, stores, dice);
        Arc::new(Self {
            state: Mutex::new(state),
            origin: Instant::now(),
            front_changed: Notify::new(),
            orders: (0..processes).map(|_| Notify::new()).collect(),
            alarm: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a closure on the state. The closure must not call anything in the library that could call back.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let elapsed = u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(0);
        state.now = elapsed.max(state.now);
        let result = f(&mut state);
        let moved = std::mem::take(&mut state.front_moved);
        let wakers = std::mem::take(&mut state.wakers);
        let broken = state.oracle.broken.is_some();
        let ordered: Vec<_> = (0..state.orders.len()).filter(|p| state.orders[*p].is_some()).collect();
        drop(state);
        if moved {
            self.front_changed.notify_one();
        }
        if broken {
            self.alarm.notify_one();
        }
        ordered.into_iter().for_each(|process| self.orders[process].notify_one());
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    pub(crate) fn send(&self, link: usize, request: Request) -> Result<Answer, oneshot::Receiver<Answer>> {
        self.with(|state| state.send(link, request))
    }

    /// Processes the events that are due, and their immediate consequences.
    fn turn(&self) {
        loop {
            let shouts = self.with(|state| {
                state.happen();
                std::mem::take(&mut state.outbox)
            });
            if shouts.is_empty() {
                return;
            }
            shouts.iter().for_each(|(to, what)| what.deliver(to));
        }
    }

    /// Advances the world forever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.turn();
            let next = self.with(|state| state.queue.first_key_value().map(|((at, _), _)| *at));
            let until = next.map_or(Duration::from_secs(1 << 30), Duration::from_micros);
            tokio::select! {
                biased;
                () = self.front_changed.notified() => {}
                () = tokio::time::sleep_until(self.origin + until) => {}
            }
        }
    }
}

/// Work of a process, which is not polled while the process is suspended.
pub(crate) struct Stoppable<F> {
    world: Arc<World>,
    process: usize,
    work: Pin<Box<F>>,
}

impl<F: Future> Stoppable<F> {
    pub(crate) fn new(world: &Arc<World>, process: usize, work: F) -> Self {
        Self { world: world.clone(), process, work: Box::pin(work) }
    }
}

impl<F: Future> Future for Stoppable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let process = self.process;
        let stopped = self.world.with(|state| {
            let stopped = state.is_paused(process);
            if stopped {
                state.pauses[process].waiting.push(cx.waker().clone());
            }
            stopped
        });
        if stopped {
            return Poll::Pending;
        }
        self.work.as_mut().poll(cx)
    }
}

/// A future that is dropped after this many polls if it is not ready, with the result `None`.
pub(crate) struct Fickle<F> {
    work: Pin<Box<F>>,
    polls: u64,
}

impl<F: Future> Fickle<F> {
    pub(crate) fn new(polls: u64, work: F) -> Self {
        Self { work: Box::pin(work), polls }
    }
}

impl<F: Future> Future for Fickle<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        match self.work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}
