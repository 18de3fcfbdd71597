//! Operations that are sent without waiting and answered later.

use super::{
    AcquireRequest, Acquired, Applied, BackendError, BackendErrorKind, ReleaseRequest, Released,
    RenewRequest, Renewed, Reply,
};
use crate::sync::{Mutex, lock, rank};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::oneshot;

/// A store whose connection carries many operations at once.
///
/// The factory hands such a store its acquires, renewals and releases here instead of calling the futures of
/// [`Backend`](super::Backend), which saves a task switch and an allocated future for each. The connection's task may send
/// operations together. The contract of `Backend` holds for each operation by itself.
pub trait Pipeline: fmt::Debug + Send + Sync + 'static {
    /// Takes an operation over. It returns without blocking, and from any thread, also outside of a runtime.
    ///
    /// The operation is completed later, from a task of the pipeline: a completion runs the lock's state machine, wakes
    /// tasks and may submit further operations, so it is never used inside of this call, nor under a mutex.
    fn submit(&self, operation: Operation);
}

/// An operation, and the place for its answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Operation {
    /// Takes a lease, or raises its depth.
    Acquire(AcquireRequest, Completion<Acquired>),
    /// Extends a lease.
    Renew(RenewRequest, Completion<Renewed>),
    /// Lowers the depth of a lease, or frees the lock.
    Release(ReleaseRequest, Completion<Released>),
}

impl Operation {
    /// Whether anybody still waits for the answer. An operation that was not sent when its time was over may be dropped.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        match self {
            Self::Acquire(_, completion) => completion.is_wanted(),
            Self::Renew(_, completion) => completion.is_wanted(),
            Self::Release(_, completion) => completion.is_wanted(),
        }
    }

    /// Answers with an error.
    pub fn fail(self, error: BackendError) {
        match self {
            Self::Acquire(_, completion) => completion.complete(Err(error)),
            Self::Renew(_, completion) => completion.complete(Err(error)),
            Self::Release(_, completion) => completion.complete(Err(error)),
        }
    }
}

/// The place for the answer to one operation. Dropping it answers that the outcome is unknown.
pub struct Completion<T>(Option<Arc<dyn Complete<T>>>);

/// Takes the answer to an operation.
pub(crate) trait Complete<T>: Send + Sync {
    fn complete(&self, answer: Result<Reply<T>, BackendError>);
    fn is_wanted(&self) -> bool;
}

impl<T> Completion<T> {
    pub(crate) fn new(to: Arc<dyn Complete<T>>) -> Self {
        Self(Some(to))
    }

    /// Answers.
    pub fn complete(mut self, answer: Result<Reply<T>, BackendError>) {
        if let Some(to) = self.0.take() {
            to.complete(answer);
        }
    }

    /// Whether anybody still waits for the answer.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(|to| to.is_wanted())
    }
}

impl<T: Send + 'static> Completion<T> {
    /// A completion, and the future of its answer: for backends whose futures submit an operation and wait for it.
    pub fn channel() -> (Self, Answer<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self::new(Arc::new(Waiting(Mutex::new(Some(sender))))), Answer(receiver))
    }
}

impl<T> Drop for Completion<T> {
    fn drop(&mut self) {
        if let Some(to) = self.0.take() {
            to.complete(Err(dropped()));
        }
    }
}

impl<T> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("is_wanted", &self.is_wanted()).finish()
    }
}

fn dropped() -> BackendError {
    let message = "the store dropped the operation without an answer";
    BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message)
}

type Sender<T> = oneshot::Sender<Result<Reply<T>, BackendError>>;

/// A future waits for the answer.
struct Waiting<T>(Mutex<rank::Answer, Option<Sender<T>>>);

impl<T: Send> Complete<T> for Waiting<T> {
    fn complete(&self, answer: Result<Reply<T>, BackendError>) {
        let sender = lock(&self.0).take();
        if let Some(sender) = sender {
            // The future may be gone.
            let _ = sender.send(answer);
        }
    }

    fn is_wanted(&self) -> bool {
        lock(&self.0).as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

/// Waits for the answer to an operation; made by [`Completion::channel`].
///
/// # Cancel safety
/// Dropping it withdraws the interest in the answer; the operation itself may go on.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Answer<T>(oneshot::Receiver<Result<Reply<T>, BackendError>>);

impl<T> Future for Answer<T> {
    type Output = Result<Reply<T>, BackendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or_else(|_| Err(dropped())))
    }
}
