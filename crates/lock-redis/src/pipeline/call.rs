//! A call under way: a future of the client library, polled once by its sender and from then on by the task of the
//! connection.

use super::{
    exchange::{Answered, exchange},
    operation::{Operations, contained},
};
use crate::{client::Client, connection::Dialled, shared::Shared};
use futures_util::{future::BoxFuture, task::AtomicWaker};
use lock_core::backend::Operation;
use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};
use tokio::time::Instant;

/// A call under way. Dropped, each of its operations is answered as unknown.
pub(super) struct Call {
    exchange: BoxFuture<'static, Vec<Answered>>,
    progress: Arc<Progress>,
    pub(super) since: Instant,
}

/// The waker of a call.
struct Progress {
    /// It is worth polling.
    ready: AtomicBool,
    /// The task of the connection.
    task: Arc<AtomicWaker>,
}

impl Wake for Progress {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Before the task is woken, which looks at it.
        self.ready.store(true, Ordering::SeqCst);
        self.task.wake();
    }
}

impl Call {
    /// A call of these operations. It is not sent before its first poll.
    pub(super) fn new<C: Client>(
        shared: &Arc<Shared<C>>,
        dialled: Arc<Dialled<C::Connection>>,
        operations: Vec<Operation>,
        task: &Arc<AtomicWaker>,
    ) -> Self {
        let (shared, operations) = (shared.clone(), Operations::new(operations));
        let exchange = Box::pin(async move { exchange(&shared, &dialled, operations).await });
        let progress = Arc::new(Progress { ready: AtomicBool::new(true), task: task.clone() });
        Self { exchange, progress, since: Instant::now() }
    }

    /// Polls if it is worth it, and returns the answers if they are there.
    pub(super) fn poll(&mut self) -> Option<Vec<Answered>> {
        if !self.progress.ready.swap(false, Ordering::SeqCst) {
            return None;
        }
        let waker = Waker::from(self.progress.clone());
        let mut answers = None;
        // With a panic of the client library, the operations are dropped.
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

    /// Sends it from outside of the task. An answer that is there at once is left for the task.
    pub(super) fn send_in_place(&mut self) {
        if let Some(answers) = self.poll() {
            self.exchange = Box::pin(ready(answers));
            self.progress.ready.store(true, Ordering::SeqCst);
        }
    }

    /// Whether a poll is worth it.
    pub(super) fn is_ready(&self) -> bool {
        self.progress.ready.load(Ordering::SeqCst)
    }
}
