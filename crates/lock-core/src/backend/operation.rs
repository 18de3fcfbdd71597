//! Operations on leases: they are submitted to a store, and their replies come back later.

use super::{
    AcquireRequest, Acquired, Applied, BackendError, BackendErrorKind, ReleaseRequest, Released,
    RenewRequest, Renewed, Reply,
};
use crate::{
    ids::LeaseId,
    name::LockName,
    sync::{Handle, Mutex, lock, rank},
    time::UtcTime,
};
use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::oneshot;

/// An operation on a lease, as the state machine requests it and a store executes it. A new kind of operation is a
/// trait of its own, never a further variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Takes a lease, or raises its depth.
    Acquire(AcquireRequest),
    /// Extends a lease.
    Renew(RenewRequest),
    /// Lowers the depth of a lease, or frees the lock.
    Release(ReleaseRequest),
}

impl Operation {
    /// Returns the lock.
    #[must_use]
    pub const fn name(&self) -> &LockName {
        match self {
            Self::Acquire(request) => &request.name,
            Self::Renew(request) => &request.name,
            Self::Release(request) => &request.name,
        }
    }

    /// Returns the lease.
    #[must_use]
    pub const fn lease(&self) -> LeaseId {
        match self {
            Self::Acquire(request) => request.lease,
            Self::Renew(request) => request.lease,
            Self::Release(request) => request.lease,
        }
    }

    /// Returns the server time after which the operation must not be executed, if it has one.
    #[must_use]
    pub const fn not_after(&self) -> Option<UtcTime> {
        match self {
            Self::Acquire(request) => Some(request.not_after),
            Self::Renew(request) => Some(request.not_after),
            Self::Release(_) => None,
        }
    }
}

/// The outcome of an [`Operation`] of the same kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The outcome of an acquire.
    Acquired(Acquired),
    /// The outcome of a renewal.
    Renewed(Renewed),
    /// The outcome of a release.
    Released(Released),
}

impl From<Acquired> for Outcome {
    fn from(outcome: Acquired) -> Self {
        Self::Acquired(outcome)
    }
}

impl From<Renewed> for Outcome {
    fn from(outcome: Renewed) -> Self {
        Self::Renewed(outcome)
    }
}

impl From<Released> for Outcome {
    fn from(outcome: Released) -> Self {
        Self::Released(outcome)
    }
}

/// Returns the reply to an acquire; an error if the store replied to another kind of operation.
pub(crate) fn acquired(reply: Reply<Outcome>) -> Result<Reply<Acquired>, BackendError> {
    match reply {
        Reply { now, outcome: Outcome::Acquired(outcome), votes } => Ok(Reply { now, outcome, votes }),
        _ => Err(mismatch()),
    }
}

/// Returns the reply to a renewal.
pub(crate) fn renewed(reply: Reply<Outcome>) -> Result<Reply<Renewed>, BackendError> {
    match reply {
        Reply { now, outcome: Outcome::Renewed(outcome), votes } => Ok(Reply { now, outcome, votes }),
        _ => Err(mismatch()),
    }
}

/// Returns the reply to a release.
pub(crate) fn released(reply: Reply<Outcome>) -> Result<Reply<Released>, BackendError> {
    match reply {
        Reply { now, outcome: Outcome::Released(outcome), votes } => Ok(Reply { now, outcome, votes }),
        _ => Err(mismatch()),
    }
}

fn mismatch() -> BackendError {
    let message = "the store replied to another kind of operation";
    BackendError::new(BackendErrorKind::Protocol, Applied::Unknown, message)
}

/// The reply to an operation, or the error in place of it.
pub(crate) type OperationReply = Result<Reply<Outcome>, BackendError>;

/// An operation that was submitted to a store, and the receiver of its reply. Dropping it reports an unknown outcome.
pub struct Submission(Arc<dyn Receiver>);

/// A receiver of the reply to an operation. Only the first reply counts.
pub(crate) trait Receiver: Send + Sync {
    fn operation(&self) -> &Operation;
    fn complete(&self, reply: OperationReply);
    fn is_wanted(&self) -> bool;
    /// Completes once the reply is no longer wanted.
    fn poll_unwanted(&self, cx: &mut Context<'_>) -> Poll<()>;
    /// Returns the runtime for the tasks of the operation, if it is not that of the caller.
    fn runtime(&self) -> Option<Handle>;
}

impl Submission {
    pub(crate) fn new(receiver: Arc<dyn Receiver>) -> Self {
        Self(receiver)
    }

    /// Creates a submission, and the future of its reply.
    pub fn channel(operation: Operation) -> (Self, Answer) {
        let (sender, receiver) = oneshot::channel();
        let waiting = Waiting { operation, sender: Mutex::new(Some(sender)) };
        (Self::new(Arc::new(waiting)), Answer(receiver))
    }

    /// Returns the operation.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        self.0.operation()
    }

    /// Delivers the reply.
    pub fn complete(self, reply: OperationReply) {
        self.0.complete(reply);
    }

    /// Returns `true` if a caller is still waiting for the reply. An operation that is no longer wanted and was not
    /// sent may be dropped.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.0.is_wanted()
    }

    /// Waits until the reply is no longer wanted, because the operation has timed out.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future changes nothing.
    pub async fn unwanted(&self) {
        poll_fn(|cx| self.0.poll_unwanted(cx)).await;
    }

    /// Returns the runtime for the tasks of the operation: that of the factory's background work, or else the caller's.
    pub(super) fn runtime(&self) -> Option<Handle> {
        self.0.runtime().or_else(|| Handle::try_current().ok())
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        if self.0.is_wanted() {
            self.0.complete(Err(dropped()));
        }
    }
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission").field("operation", self.operation()).finish_non_exhaustive()
    }
}

fn dropped() -> BackendError {
    let message = "the store dropped the operation without a reply";
    BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message)
}

/// The receiver of the reply to an [`Answer`].
struct Waiting {
    operation: Operation,
    sender: Mutex<rank::Answer, Option<oneshot::Sender<OperationReply>>>,
}

impl Receiver for Waiting {
    fn operation(&self) -> &Operation {
        &self.operation
    }

    fn complete(&self, reply: OperationReply) {
        let sender = lock(&self.sender).take();
        if let Some(sender) = sender {
            // The future may have been dropped.
            let _ = sender.send(reply);
        }
    }

    fn is_wanted(&self) -> bool {
        lock(&self.sender).as_ref().is_some_and(|sender| !sender.is_closed())
    }

    fn poll_unwanted(&self, cx: &mut Context<'_>) -> Poll<()> {
        lock(&self.sender).as_mut().map_or(Poll::Ready(()), |sender| sender.poll_closed(cx))
    }

    fn runtime(&self) -> Option<Handle> {
        None
    }
}

/// A future that waits for the reply to an operation, returned by [`Submission::channel`].
///
/// # Cancel safety
/// Dropping the future ignores the reply; the operation itself may continue.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Answer(oneshot::Receiver<OperationReply>);

impl Future for Answer {
    type Output = OperationReply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|reply| reply.unwrap_or_else(|_| Err(dropped())))
    }
}
