//! Stores whose operations are futures: the adapter that submits to them, and the futures of a store that is submitted
//! to.

use super::{
    AcquireRequest, Acquired, Answer, Backend, BackendError, Capabilities, ForceReleaseRequest,
    ForceReleased, Inspected, Operation, OperationReply, Outcome, ReleaseRequest, Released, RenewRequest,
    Renewed, Reply, Submission,
    operation::{acquired, released, renewed},
};
use crate::{
    name::LockName,
    sync::{Handle, Id, Mutex, enter, lock, rank},
    time::UtcTime,
    wake::contained,
};
use async_trait::async_trait;
use futures_util::future::join_all;
use std::{
    collections::HashMap,
    fmt::Debug,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// The maximum number of renewals per call, which bounds the load on a slow store.
const MAX_RENEWALS: usize = 500;

/// A store whose operations are plain futures. [`Store::polling`](super::Store::polling) makes
/// a [`Backend`] of it.
///
/// The contract of `Backend` holds for each method. A future is polled once in place, and then by a task. Both happen
/// in the runtime of the factory's background work, usually the keeper's, so a future that may block needs a
/// [`Worker`](crate::Worker). It is dropped when its operation has timed out.
#[async_trait]
pub trait AsyncBackend: Debug + Send + Sync + 'static {
    /// See [`Backend::capabilities`].
    fn capabilities(&self) -> Capabilities;

    /// See [`Backend::server_now`].
    fn server_now(&self, name: &LockName) -> Option<UtcTime>;

    /// Takes a lease or raises its depth, or reports why it did not.
    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError>;

    /// Extends existing leases, those that are due together in one call. Returns one reply per item, in the order of
    /// the items. The failure of one item must not delay or fail another.
    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>>;

    /// Lowers the depth of a lease, or frees the lock.
    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError>;

    /// See [`Backend::inspect`].
    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError>;

    /// See [`Backend::force_release`].
    async fn force_release(&self, request: ForceReleaseRequest)
    -> Result<Reply<ForceReleased>, BackendError>;
}

/// A backend whose operations are futures of an [`AsyncBackend`].
#[derive(Debug)]
pub(super) struct Adapter<B> {
    inner: Arc<B>,
    /// Renewals that wait for the next call. While there are any, a task is about to send them.
    renewals: Renewals,
}

impl<B: AsyncBackend> Adapter<B> {
    pub(super) fn new(inner: Arc<B>) -> Self {
        Self { inner, renewals: Arc::default() }
    }

    /// Adds a renewal to those that the current turn of the caller submits: a task sends them after it.
    fn renew_together(&self, submission: Submission) {
        let Some(runtime) = submission.runtime() else { return };
        let is_first = {
            let mut renewals = lock(&self.renewals);
            let together = renewals.entry(runtime.id()).or_default();
            together.push(submission);
            together.len() == 1
        };
        if !is_first {
            return;
        }
        let gathered = Gathered(Some((runtime.id(), self.renewals.clone())));
        let inner = self.inner.clone();
        runtime.spawn(async move {
            let mut due = gathered.take();
            let mut calls = Vec::new();
            while !due.is_empty() {
                let batch = due.drain(..due.len().min(MAX_RENEWALS)).collect();
                calls.push(renew(inner.clone(), batch));
            }
            join_all(calls).await;
        });
    }
}

/// By the runtime of their task: a runtime that is blocked must not delay the renewals of others.
type Renewals = Arc<Mutex<rank::Renewals, HashMap<Id, Vec<Submission>>>>;

/// The renewals that a task is about to send. If its runtime ends before, they are dropped, and have an unknown
/// outcome: otherwise no task would ever send them or those that are added to them.
struct Gathered(Option<(Id, Renewals)>);

impl Gathered {
    fn take(mut self) -> Vec<Submission> {
        self.0.take().and_then(|(id, renewals)| lock(&renewals).remove(&id)).unwrap_or_default()
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        if let Some((id, renewals)) = self.0.take() {
            let never_sent = lock(&renewals).remove(&id);
            drop(never_sent);
        }
    }
}

/// Renews the leases of a batch in one call.
async fn renew<B: AsyncBackend>(inner: Arc<B>, batch: Vec<Submission>) {
    let requests = batch.iter().filter_map(|submission| match submission.operation() {
        Operation::Renew(request) => Some(request.clone()),
        Operation::Acquire(_) | Operation::Release(_) => None,
    });
    let call = inner.renew(requests.collect());
    let all_unwanted = async {
        for submission in &batch {
            submission.unwanted().await;
        }
    };
    let replies = tokio::select! {
        biased;
        replies = call => replies,
        () = all_unwanted => return,
    };
    for (submission, reply) in batch.into_iter().zip(replies) {
        submission.complete(outcome(reply));
    }
}

/// Completes the submission with the future's reply, unless it is no longer wanted before.
fn answer(submission: Submission, reply: impl Future<Output = OperationReply> + Send + 'static) {
    let runtime = submission.runtime();
    let work = async move {
        let reply = tokio::select! {
            biased;
            reply = reply => reply,
            () = submission.unwanted() => return,
        };
        submission.complete(reply);
    };
    begin(runtime.as_ref(), work);
}

fn outcome<T: Into<Outcome>>(reply: Result<Reply<T>, BackendError>) -> OperationReply {
    reply.map(|reply| reply.map(Into::into))
}

/// Polls `work` once in place, and continues it in a task of the current runtime: work that no caller waits for. It
/// also ends with that runtime.
pub fn in_background(work: impl Future<Output = ()> + Send + 'static) {
    begin(Handle::try_current().ok().as_ref(), work);
}

/// Polls a store's future once in place, and leaves it to a task of the runtime if it is pending. Without a runtime, or
/// if it panics, it is dropped.
fn begin(runtime: Option<&Handle>, future: impl Future<Output = ()> + Send + 'static) {
    let mut future = Box::pin(future);
    match poll_in_place(runtime, &mut future) {
        Some(Poll::Pending) => leave_to(runtime, future),
        Some(Poll::Ready(())) | None => contained("a store", || drop(future)),
    }
}

/// Polls a store's future once, in the context of the runtime. Returns `None` if it panics.
pub(crate) fn poll_in_place<F: Future>(
    runtime: Option<&Handle>,
    future: &mut Pin<Box<F>>,
) -> Option<Poll<F::Output>> {
    let mut polled = None;
    let mut poll = || polled = Some(future.as_mut().poll(&mut Context::from_waker(Waker::noop())));
    contained("a store", || match runtime {
        Some(runtime) => enter(runtime, poll),
        None => poll(),
    });
    polled
}

/// Runs a store's future in a task of the runtime. Without one, it is dropped.
pub(crate) fn leave_to(runtime: Option<&Handle>, future: impl Future<Output = ()> + Send + 'static) {
    match runtime {
        Some(runtime) => {
            runtime.spawn(future);
        }
        None => contained("a store", || drop(future)),
    }
}

#[async_trait]
impl<B: AsyncBackend> Backend for Adapter<B> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.inner.server_now(name)
    }

    fn submit(&self, submission: Submission) {
        let inner = self.inner.clone();
        match submission.operation().clone() {
            Operation::Acquire(request) => {
                answer(submission, async move { outcome(inner.acquire(request).await) });
            }
            Operation::Renew(_) => self.renew_together(submission),
            Operation::Release(request) => {
                answer(submission, async move { outcome(inner.release(request).await) });
            }
        }
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.inner.inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.inner.force_release(request).await
    }
}

/// The operations of a [`Backend`] as futures, for wrappers and tests.
///
/// # Errors
/// The errors of the backend; [`BackendErrorKind::Protocol`](super::BackendErrorKind::Protocol) if it replies to
/// another kind of operation.
///
/// # Cancel safety
/// Dropping a future ignores the reply; the operation may or may not be executed.
pub trait BackendExt: Backend {
    /// Submits an acquire and waits for its reply.
    fn acquire(
        &self,
        request: AcquireRequest,
    ) -> impl Future<Output = Result<Reply<Acquired>, BackendError>> + Send {
        async move { ask(self, Operation::Acquire(request)).await.and_then(acquired) }
    }

    /// Submits renewals and waits for their replies, which are in the order of the items.
    fn renew(
        &self,
        items: Vec<RenewRequest>,
    ) -> impl Future<Output = Vec<Result<Reply<Renewed>, BackendError>>> + Send {
        async move {
            let replies = items.into_iter().map(|item| ask(self, Operation::Renew(item)));
            let replies = join_all(replies.collect::<Vec<_>>()).await;
            replies.into_iter().map(|reply| reply.and_then(renewed)).collect()
        }
    }

    /// Submits a release and waits for its reply.
    fn release(
        &self,
        request: ReleaseRequest,
    ) -> impl Future<Output = Result<Reply<Released>, BackendError>> + Send {
        async move { ask(self, Operation::Release(request)).await.and_then(released) }
    }
}

impl<B: Backend + ?Sized> BackendExt for B {}

fn ask<B: Backend + ?Sized>(backend: &B, operation: Operation) -> Answer {
    let (submission, answer) = Submission::channel(operation);
    backend.submit(submission);
    answer
}
