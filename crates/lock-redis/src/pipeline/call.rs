//! A call in progress, which is a future of the client library. The sender polls it once, and
//! afterwards the connection's task polls it.

use super::{
    exchange::{Answered, exchange},
    operation::{Submissions, contained},
};
use crate::{client::Client, connection::Dialled, shared::Shared};
use futures_util::{future::BoxFuture, task::AtomicWaker};
use lock_core::backend::Submission;
use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};
use tokio::time::Instant;

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
            self.exchange = Box::pin(ready(answers));
            self.progress.ready.store(true, Ordering::SeqCst);
        }
    }

    /// Returns `true` if a poll may make progress.
    pub(super) fn is_ready(&self) -> bool {
        self.progress.ready.load(Ordering::SeqCst)
    }
}
