//! The future of one request: it resolves the key, acquires the lock, and runs the handler to the head of its
//! response.

use super::running::{HandlerEnd, Running};
use crate::{
    acquire::Acquire,
    body::LockedBody,
    handle::{Held, LockStatus, RequestGuard, Watch},
    key::{KeyError, Read},
    reject::{RejectReason, RejectionBody},
    request::{Fallback, LockRequest},
};
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use lock_core::{LockError, names::LockNames};
use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tower_service::Service;
use tracing::Span;

pin_project! {
    /// The future of a [`LockService`](super::LockService).
    ///
    /// # Cancel safety
    /// Dropping the future drops the handler and releases the lock in the background. A waiting request leaves the
    /// queue.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        stage: Stage<S::Future, S, B>,
        span: Span,
    }
}

pin_project! {
    // The fields are dropped in this order: the handler before its lock.
    #[project = StageProj]
    enum Stage<F, S, B> {
        NoLockNeeded { #[pin] handler: F },
        /// An application function looks up the key.
        ResolvingKey { names: BoxFuture<'static, Result<LockNames, KeyError>>, waiting: Option<Waiting<S, B>> },
        /// The request waits for its lock, or for the next of several.
        Acquiring { acquire: Acquire, waiting: Option<Waiting<S, B>> },
        /// The handler runs, with or without the lock.
        Running { #[pin] running: Running<F> },
        /// The layer responds in place of the handler.
        Rejected { response: Option<Response<RejectionBody>> },
    }
}

struct Waiting<S, B> {
    lock: LockRequest,
    service: S,
    request: Request<B>,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn no_lock_needed(handler: S::Future) -> Self {
        Self { stage: Stage::NoLockNeeded { handler }, span: Span::none() }
    }

    pub(super) fn begin(names: Read, lock: LockRequest, service: S, request: Request<B>) -> Self {
        let span = lock.observers.span().clone();
        let waiting = Waiting { lock, service, request };
        let entered = span.enter();
        let stage = match names {
            Read::Now(names) => waiting.resolved(names),
            Read::Later(names) => waiting.look_up(names),
        };
        drop(entered);
        Self { stage, span }
    }
}

impl<S, B> Waiting<S, B>
where
    S: Service<Request<B>>,
{
    /// Starts a key lookup, which counts as a waiter.
    fn look_up(mut self, names: BoxFuture<'static, Result<LockNames, KeyError>>) -> Stage<S::Future, S, B> {
        match self.lock.enter_queue() {
            Ok(()) => Stage::ResolvingKey { names, waiting: Some(self) },
            Err(reason) => self.without_lock(reason),
        }
    }

    fn resolved(mut self, names: Result<LockNames, KeyError>) -> Stage<S::Future, S, B> {
        match names.map_err(RejectReason::Key).and_then(|names| self.lock.acquire(names)) {
            Ok(acquire) => Stage::Acquiring { acquire, waiting: Some(self) },
            Err(reason) => self.without_lock(reason),
        }
    }

    fn acquired(mut self, guard: Result<RequestGuard, LockError>) -> Stage<S::Future, S, B> {
        match self.lock.acquired(guard) {
            Ok(held) => self.run(LockStatus::held(&held), Some(held)),
            Err(reason) => self.without_lock(reason),
        }
    }

    fn without_lock(mut self, reason: RejectReason) -> Stage<S::Future, S, B> {
        match self.lock.without_lock(reason, Some(self.request.extensions())) {
            Fallback::PassThrough(unlocked) => self.run(LockStatus::Unlocked(unlocked), None),
            Fallback::Reject(response) => Stage::Rejected { response: Some(response) },
        }
    }

    fn run(mut self, status: LockStatus, held: Option<Arc<Held>>) -> Stage<S::Future, S, B> {
        let extensions = self.request.extensions_mut();
        extensions.insert(status);
        if let Some(keep) = self.lock.keep_lock(held.as_ref()) {
            extensions.insert(keep);
        }
        let watch = held.map(|held| Watch::new(held, self.lock.config.on_lost()));
        let handler = self.service.call(self.request);
        Stage::Running { running: Running::new(handler, watch, self.lock) }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    type Output = Result<Response<LockedBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let _entered = this.span.enter();
        let mut stage = this.stage;
        loop {
            let next = match stage.as_mut().project() {
                StageProj::NoLockNeeded { handler } => {
                    return handler.poll(cx).map_ok(|response| response.map(LockedBody::unlocked));
                }
                StageProj::ResolvingKey { names, waiting } => {
                    let names = ready!(names.as_mut().poll(cx));
                    take(waiting).resolved(names)
                }
                StageProj::Acquiring { acquire, waiting } => {
                    let guard = ready!(Pin::new(acquire).poll(cx));
                    take(waiting).acquired(guard)
                }
                StageProj::Running { running } => match ready!(running.poll_head(cx)) {
                    HandlerEnd::Answered(response) => return Poll::Ready(response),
                    HandlerEnd::Stopped(response) => Stage::Rejected { response: Some(response) },
                },
                StageProj::Rejected { response } => {
                    let response = take(response);
                    return Poll::Ready(Ok(response.map(LockedBody::ready_made)));
                }
            };
            stage.set(next);
        }
    }
}

/// Takes the value left by the previous stage.
#[track_caller]
fn take<T>(slot: &mut Option<T>) -> T {
    match slot.take() {
        Some(value) => value,
        None => panic!("`ResponseFuture` polled after completion"),
    }
}
