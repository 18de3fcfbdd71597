//! Futures that are not polled while their process is suspended, and futures that are dropped after some polls.

use crate::world::World;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

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
