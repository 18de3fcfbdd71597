//! The future of one request: it resolves the key, acquires the lock, and runs the handler to the head of its
//! response.

use super::running::{HandlerEnd, Running};
use crate::{
    acquire::Acquire,
    body::LockedBody,
    handle::{Held, LockStatus, RequestGuard, Watch},
    key::{KeyError, Read},
    observer::Observers,
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
        mode: Mode<S, S::Future, B>,
    }
}

pin_project! {
    #[project = ModeProj]
    enum Mode<S, F, B> {
        NoLockNeeded { #[pin] handler: F },
        NeedsLock { #[pin] locking: Locking<S, F, B> },
    }
}

pin_project! {
    struct Locking<S, F, B> {
        // The fields are dropped in this order: the handler before its lock.
        #[pin]
        stage: Stage<F>,
        call: Option<Call<S, B>>,
        lock: LockRequest,
        observers: Observers,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<F> {
        /// An application function looks up the key.
        ResolvingKey { names: BoxFuture<'static, Result<LockNames, KeyError>> },
        /// The request waits for its lock, or for the next of several.
        Acquiring { acquire: Acquire },
        /// The handler runs, with or without the lock.
        Running { #[pin] running: Running<F> },
        /// The layer responds in place of the handler.
        Rejected { response: Option<Response<RejectionBody>> },
    }
}

/// The call of the handler, which waits for the lock.
struct Call<S, B> {
    service: S,
    request: Request<B>,
}

/// A step from one stage to the next.
struct Step<'a, S, B> {
    call: &'a mut Option<Call<S, B>>,
    lock: &'a mut LockRequest,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn no_lock_needed(handler: S::Future) -> Self {
        Self { mode: Mode::NoLockNeeded { handler } }
    }

    pub(super) fn begin(names: Read, mut lock: LockRequest, service: S, request: Request<B>) -> Self {
        let observers = lock.observers.clone();
        let mut call = Some(Call { service, request });
        let entered = observers.span().enter();
        let step = Step { call: &mut call, lock: &mut lock };
        let stage = match names {
            Read::Now(names) => step.resolved(names),
            Read::Later(names) => step.look_up(names),
        };
        drop(entered);
        Self { mode: Mode::NeedsLock { locking: Locking { stage, call, lock, observers } } }
    }
}

impl<S, B> Step<'_, S, B>
where
    S: Service<Request<B>>,
{
    /// Starts a key lookup, which counts as a waiter.
    fn look_up(self, names: BoxFuture<'static, Result<LockNames, KeyError>>) -> Stage<S::Future> {
        match self.lock.enter_queue() {
            Ok(()) => Stage::ResolvingKey { names },
            Err(reason) => self.without_lock(reason),
        }
    }

    fn resolved(self, names: Result<LockNames, KeyError>) -> Stage<S::Future> {
        match names.map_err(RejectReason::Key).and_then(|names| self.lock.acquire(names)) {
            Ok(acquire) => Stage::Acquiring { acquire },
            Err(reason) => self.without_lock(reason),
        }
    }

    fn acquired(self, guard: Result<RequestGuard, LockError>) -> Stage<S::Future> {
        match self.lock.acquired(guard) {
            Ok(held) => self.run(LockStatus::held(&held), Some(held)),
            Err(reason) => self.without_lock(reason),
        }
    }

    fn without_lock(self, reason: RejectReason) -> Stage<S::Future> {
        let extensions = self.call.as_ref().map(|call| call.request.extensions());
        match self.lock.without_lock(reason, extensions) {
            Fallback::PassThrough(unlocked) => self.run(LockStatus::Unlocked(unlocked), None),
            Fallback::Reject(response) => Stage::Rejected { response: Some(response) },
        }
    }

    fn run(self, status: LockStatus, held: Option<Arc<Held>>) -> Stage<S::Future> {
        let Call { mut service, mut request } = take(self.call);
        let extensions = request.extensions_mut();
        extensions.insert(status);
        if let Some(keep) = self.lock.keep_lock(held.as_ref()) {
            extensions.insert(keep);
        }
        let watch = held.map(|held| Watch::just_granted(held, self.lock.config.on_lost()));
        Stage::Running { running: Running::new(service.call(request), watch) }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    type Output = Result<Response<LockedBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let locking = match self.project().mode.project() {
            ModeProj::NoLockNeeded { handler } => {
                return handler.poll(cx).map_ok(|response| response.map(LockedBody::unlocked));
            }
            ModeProj::NeedsLock { locking } => locking.project(),
        };
        let _entered = locking.observers.span().enter();
        let (mut stage, call, lock) = (locking.stage, locking.call, locking.lock);
        loop {
            let next = match stage.as_mut().project() {
                StageProj::ResolvingKey { names } => {
                    let names = ready!(names.as_mut().poll(cx));
                    Step { call, lock }.resolved(names)
                }
                StageProj::Acquiring { acquire } => {
                    let guard = ready!(Pin::new(acquire).poll(cx));
                    Step { call, lock }.acquired(guard)
                }
                StageProj::Running { running } => match ready!(running.poll_head(lock, cx)) {
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
