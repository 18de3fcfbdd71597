//! The future of one request: it resolves the key, acquires the lock, and runs the handler to the head of its
//! response.

use crate::{
    body::LockedBody,
    detach::{Disconnect, Keep},
    handle::{Acquire, Held, LockStatus, RequestGuard, Watch},
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
    /// The future of a request whose layer reads the key. The request begins to wait for its lock at the first poll.
    ///
    /// # Cancel safety
    /// Dropping the future drops the handler, unless it is detached, and releases the lock in the background. A waiting
    /// request leaves the queue.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, B, D>
    where
        S: Service<Request<B>>,
        D: Disconnect<S::Future>,
    {
        #[pin]
        mode: Mode<S, B, D>,
    }
}

pin_project! {
    #[project = ModeProj]
    enum Mode<S, B, D>
    where
        S: Service<Request<B>>,
        D: Disconnect<S::Future>,
    {
        NoLockNeeded { #[pin] handler: D::Future },
        NeedsLock { #[pin] locking: Locking<S, B, D> },
    }
}

pin_project! {
    #[project = LockingProj]
    struct Locking<S, B, D>
    where
        S: Service<Request<B>>,
        D: Disconnect<S::Future>,
    {
        // The fields are dropped in this order: the handler before its lock.
        #[pin]
        stage: Stage<D::Future>,
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

impl<S, B, D> ResponseFuture<S, B, D>
where
    S: Service<Request<B>>,
    D: Disconnect<S::Future>,
{
    pub(super) fn no_lock_needed(handler: S::Future) -> Self {
        Self { mode: Mode::NoLockNeeded { handler: D::run(handler, Keep::Nothing) } }
    }

    pub(super) fn new(names: Read, lock: LockRequest, call: Call<S, B>) -> Self {
        let stage = Stage::Arrived { names: Some(names) };
        Self { mode: Mode::NeedsLock { locking: Locking { stage, call: Some(call), lock } } }
    }
}

impl<S, B, D> LockingProj<'_, S, B, D>
where
    S: Service<Request<B>>,
    D: Disconnect<S::Future>,
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
            Fallback::PassThrough(reason) => self.run(LockStatus::Unlocked(reason), None),
            Fallback::Reject(response) => self.stage.set(Stage::Rejected { response: Some(response) }),
        }
    }

    fn run(&mut self, status: LockStatus, held: Option<Arc<Held>>) {
        let Call { mut service, mut parts, body } = take(self.call);
        self.lock.config.report(status, &mut parts.extensions);
        let keep = self.lock.keep_lock(held.as_ref()).map_or(Keep::Nothing, Keep::Now);
        let watch = held.map(|held| Watch::just_granted(held, self.lock.config.on_lost()));
        let handler = D::run(service.call(Request::from_parts(parts, body)), keep);
        self.stage.set(Stage::Running { running: Running::new(handler, watch) });
    }
}

impl<S, B, D, R> Future for ResponseFuture<S, B, D>
where
    S: Service<Request<B>>,
    D: Disconnect<S::Future>,
    D::Future: Future<Output = Result<Response<R>, S::Error>>,
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

pin_project! {
    #[project = RunningProj]
    /// A handler, and its share of the lock if it has one.
    // The handler is dropped before its lock.
    pub(crate) struct Running<F> {
        // `None` once the lock was lost and the layer has responded.
        #[pin]
        handler: Option<F>,
        watch: Option<Watch>,
    }
}

impl<F> Running<F> {
    pub(crate) fn new(handler: F, watch: Option<Watch>) -> Self {
        Self { handler: Some(handler), watch }
    }

    /// Sets the handler's lock, which is then released with the response.
    pub(crate) fn watch(self: Pin<&mut Self>, watch: Option<Watch>) {
        *self.project().watch = watch;
    }

    /// Polls the handler. If the handler loses its lock, it is dropped, and the layer responds instead.
    pub(crate) fn poll_head<R, E>(
        self: Pin<&mut Self>,
        lock: &LockRequest,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<LockedBody<R>>, E>>
    where
        F: Future<Output = Result<Response<R>, E>>,
        R: Body,
    {
        let RunningProj { mut handler, watch } = self.project();
        let Some(running) = handler.as_mut().as_pin_mut() else {
            panic!("the future of a locked handler polled after completion")
        };
        let reason = match Watch::check(watch) {
            Some(reason) => reason,
            None => match running.poll(cx) {
                Poll::Pending => ready!(Watch::poll_lost(watch, cx)),
                Poll::Ready(Err(error)) => {
                    *watch = None;
                    return Poll::Ready(Err(error));
                }
                // A response produced after the loss of the lock must not look like a success.
                Poll::Ready(Ok(response)) => match Watch::check(watch) {
                    Some(reason) => reason,
                    None => return Poll::Ready(Ok(keep_until_end(response, watch.take(), lock))),
                },
            },
        };
        let response = lock.lost(reason, Watch::prevented_work(watch.as_ref()));
        handler.set(None);
        *watch = None;
        Poll::Ready(Ok(response.map(LockedBody::ready_made)))
    }
}

/// Passes the lock to the body, unless nothing is left to protect.
fn keep_until_end<R: Body>(
    response: Response<R>,
    watch: Option<Watch>,
    lock: &LockRequest,
) -> Response<LockedBody<R>> {
    let ends_here = lock.config.release_on.ends_with(response.status(), lock.asks_for_head)
        || response.body().is_end_stream();
    if !ends_here {
        return response.map(|body| LockedBody::new(body, watch));
    }
    if let Some(watch) = watch {
        watch.release();
    }
    response.map(LockedBody::unlocked)
}
