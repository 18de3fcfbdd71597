//! The future of one request: it resolves the key, acquires the lock, and runs the handler to the head of its
//! response.

use super::running::Running;
use crate::{
    acquire::Acquire,
    body::LockedBody,
    handle::{Held, LockStatus, RequestGuard, Watch},
    key::{KeyError, Read},
    reject::{RejectReason, RejectionBody},
    request::{Fallback, LockRequest},
};
use futures_util::future::BoxFuture;
use http::{Request, Response, request::Parts};
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
    /// The future of a [`LockService`](super::LockService). The request begins to wait for its lock at the first poll.
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
    #[project = LockingProj]
    struct Locking<S, F, B> {
        // The fields are dropped in this order: the handler before its lock.
        #[pin]
        stage: Stage<F>,
        call: Option<Call<S, B>>,
        lock: LockRequest,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<F> {
        /// The future has not been polled.
        Arrived { names: Option<Read> },
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
pub(super) struct Call<S, B> {
    pub(super) service: S,
    pub(super) parts: Parts,
    pub(super) body: B,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn no_lock_needed(handler: S::Future) -> Self {
        Self { mode: Mode::NoLockNeeded { handler } }
    }

    pub(super) fn new(names: Read, lock: LockRequest, call: Call<S, B>) -> Self {
        let stage = Stage::Arrived { names: Some(names) };
        Self { mode: Mode::NeedsLock { locking: Locking { stage, call: Some(call), lock } } }
    }
}

impl<S, B> LockingProj<'_, S, S::Future, B>
where
    S: Service<Request<B>>,
{
    fn arrived(&mut self, names: Read) {
        match names {
            Read::Now(names) => self.resolved(names),
            Read::Later(names) => self.look_up(names),
        }
    }

    /// Starts a key lookup, which counts as a waiter.
    #[cold]
    fn look_up(&mut self, names: BoxFuture<'static, Result<LockNames, KeyError>>) {
        match self.lock.enter_queue() {
            Ok(()) => self.stage.set(Stage::ResolvingKey { names }),
            Err(reason) => self.without_lock(reason),
        }
    }

    fn resolved(&mut self, names: Result<LockNames, KeyError>) {
        match names.map_err(RejectReason::Key).and_then(|names| self.lock.acquire(names)) {
            Ok(acquire) => self.stage.set(Stage::Acquiring { acquire }),
            Err(reason) => self.without_lock(reason),
        }
    }

    fn acquired(&mut self, guard: Result<RequestGuard, LockError>) {
        match self.lock.acquired(guard) {
            Ok(held) => self.run(LockStatus::held(&held), Some(held)),
            Err(reason) => self.without_lock(reason),
        }
    }

    #[cold]
    fn without_lock(&mut self, reason: RejectReason) {
        let extensions = self.call.as_ref().map(|call| &call.parts.extensions);
        match self.lock.without_lock(reason, extensions) {
            Fallback::PassThrough(unlocked) => self.run(LockStatus::Unlocked(unlocked), None),
            Fallback::Reject(response) => self.stage.set(Stage::Rejected { response: Some(response) }),
        }
    }

    fn run(&mut self, status: LockStatus, held: Option<Arc<Held>>) {
        let Call { mut service, mut parts, body } = take(self.call);
        parts.extensions.insert(status);
        if let Some(keep) = self.lock.keep_lock(held.as_ref()) {
            parts.extensions.insert(keep);
        }
        let watch = held.map(|held| Watch::just_granted(held, self.lock.config.on_lost()));
        let handler = service.call(Request::from_parts(parts, body));
        self.stage.set(Stage::Running { running: Running::new(handler, watch) });
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    type Output = Result<Response<LockedBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut locking = match self.project().mode.project() {
            ModeProj::NoLockNeeded { handler } => {
                return handler.poll(cx).map_ok(|response| response.map(LockedBody::unlocked));
            }
            ModeProj::NeedsLock { locking } => locking.project(),
        };
        let observers = locking.lock.observers.clone();
        let _entered = observers.span().enter();
        loop {
            match locking.stage.as_mut().project() {
                StageProj::Arrived { names } => {
                    let names = take(names);
                    locking.arrived(names)
                }
                StageProj::ResolvingKey { names } => {
                    let names = ready!(names.as_mut().poll(cx));
                    locking.resolved(names)
                }
                StageProj::Acquiring { acquire } => {
                    let guard = ready!(Pin::new(acquire).poll(cx));
                    locking.acquired(guard)
                }
                StageProj::Running { running } => return running.poll_head(locking.lock, cx),
                StageProj::Rejected { response } => {
                    return Poll::Ready(Ok(take(response).map(LockedBody::ready_made)));
                }
            }
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
