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

/// A store whose connection carries many operations concurrently.
///
/// The factory submits its acquires, renewals and releases to it instead of calling the futures of
/// [`Backend`](super::Backend). This saves a task switch and a boxed future per operation, and the connection's task
/// may batch operations. The contract of `Backend` holds for each operation.
pub trait Pipeline: fmt::Debug + Send + Sync + 'static {
    /// Accepts an operation. It returns without blocking and may be called from any thread, inside or outside a
    /// runtime.
    ///
    /// The operation is completed later, from a task of the pipeline. A completion runs the lock's state machine,
    /// wakes tasks and may submit further operations, so it must not be used inside this call or while holding a
    /// mutex.
    fn submit(&self, operation: Operation);
}

/// An operation with its completion.
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
    /// Returns `true` if a caller is still waiting for the reply. An operation that is no longer wanted and was not
    /// sent may be dropped.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        match self {
            Self::Acquire(_, completion) => completion.is_wanted(),
            Self::Renew(_, completion) => completion.is_wanted(),
            Self::Release(_, completion) => completion.is_wanted(),
        }
    }

    /// Completes the operation with an error.
    pub fn fail(self, error: BackendError) {
        match self {
            Self::Acquire(_, completion) => completion.complete(Err(error)),
            Self::Renew(_, completion) => completion.complete(Err(error)),
            Self::Release(_, completion) => completion.complete(Err(error)),
        }
    }
}

/// The receiver of the reply to one operation. Dropping it reports an unknown outcome.
pub struct Completion<T>(Option<Arc<dyn Complete<T>>>);

/// A receiver of the reply to an operation.
pub(crate) trait Complete<T>: Send + Sync {
    fn complete(&self, answer: Result<Reply<T>, BackendError>);
    fn is_wanted(&self) -> bool;
}

impl<T> Completion<T> {
    pub(crate) fn new(to: Arc<dyn Complete<T>>) -> Self {
        Self(Some(to))
    }

    /// Delivers the reply.
    pub fn complete(mut self, answer: Result<Reply<T>, BackendError>) {
        if let Some(to) = self.0.take() {
            to.complete(answer);
        }
    }

    /// Returns `true` if a caller is still waiting for the reply.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(|to| to.is_wanted())
    }
}

impl<T: Send + 'static> Completion<T> {
    /// Creates a completion and the future of its reply, for backends whose futures submit an operation and wait for
    /// it.
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
    let message = "the store dropped the operation without a reply";
    BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message)
}

type Sender<T> = oneshot::Sender<Result<Reply<T>, BackendError>>;

/// The sender of the reply to an [`Answer`].
struct Waiting<T>(Mutex<rank::Answer, Option<Sender<T>>>);

impl<T: Send> Complete<T> for Waiting<T> {
    fn complete(&self, answer: Result<Reply<T>, BackendError>) {
        let sender = lock(&self.0).take();
        if let Some(sender) = sender {
            // The future may have been dropped.
            let _ = sender.send(answer);
        }
    }

    fn is_wanted(&self) -> bool {
        lock(&self.0).as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

/// A future that waits for the reply to an operation, returned by [`Completion::channel`].
///
/// # Cancel safety
/// Dropping the future ignores the reply; the operation itself may continue.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Answer<T>(oneshot::Receiver<Result<Reply<T>, BackendError>>);

impl<T> Future for Answer<T> {
    type Output = Result<Reply<T>, BackendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or_else(|_| Err(dropped())))
    }
}
