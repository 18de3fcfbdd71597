//! The way of one request: its key, its lock, the handler, the head of the response.

use crate::{
    body::LockedBody,
    handle::{Held, LockHandle, LockStatus, Watch},
    key::{KeyError, Read},
    reject::{RejectReason, RejectionBody},
    request::{Call, Instead},
};
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use lock_core::{AcquireFuture, LockError, LockGuard, LockName};
use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tower_service::Service;

pin_project! {
    /// The future of a [`LockService`](crate::LockService).
    ///
    /// # Cancel safety
    /// Dropping it drops the handler, and releases the lock in the background; a request that waits leaves the queue.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        stage: Stage<S::Future, S, B>,
    }
}

pin_project! {
    // The order of the fields is the order in which they are dropped: the handler before its lock.
    #[project = StageProj]
    enum Stage<F, S, B> {
        /// No lock is needed.
        Passing { #[pin] handler: F },
        /// The key is being looked up.
        Naming { name: BoxFuture<'static, Result<LockName, KeyError>>, waiting: Option<Waiting<S, B>> },
        /// In the queue.
        Acquiring { acquire: AcquireFuture, waiting: Option<Waiting<S, B>> },
        /// The handler runs, with the lock or (unlocked) without.
        Running { #[pin] handler: F, watch: Option<Watch>, call: Call },
        /// The answer is not the handler's.
        Refused { response: Option<Response<RejectionBody>> },
    }
}

struct Waiting<S, B> {
    call: Call,
    service: S,
    request: Request<B>,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn passing(handler: S::Future) -> Self {
        Self { stage: Stage::Passing { handler } }
    }

    pub(super) fn begin(name: Read, call: Call, service: S, request: Request<B>) -> Self {
        let waiting = Waiting { call, service, request };
        let stage = match name {
            Read::Now(name) => waiting.named(name),
            Read::Later(name) => waiting.look_up(name),
        };
        Self { stage }
    }
}

impl<S, B> Waiting<S, B>
where
    S: Service<Request<B>>,
{
    /// A look-up waits like all others.
    fn look_up(mut self, name: BoxFuture<'static, Result<LockName, KeyError>>) -> Stage<S::Future, S, B> {
        match self.call.wait() {
            Ok(()) => Stage::Naming { name, waiting: Some(self) },
            Err(reason) => self.refused(reason),
        }
    }

    fn named(mut self, name: Result<LockName, KeyError>) -> Stage<S::Future, S, B> {
        match name.map_err(RejectReason::Key).and_then(|name| self.call.enter(name)) {
            Ok(acquire) => Stage::Acquiring { acquire, waiting: Some(self) },
            Err(reason) => self.refused(reason),
        }
    }

    fn acquired(mut self, guard: Result<LockGuard, LockError>) -> Stage<S::Future, S, B> {
        let guard = match guard {
            Ok(guard) => guard,
            Err(error) => {
                let reason = self.call.reason(error);
                return self.refused(reason);
            }
        };
        if let Err(full) = self.call.take_slot() {
            drop(guard);
            return self.refused(full);
        }
        let held = Arc::new(Held::new(guard, self.call.telling.clone()));
        self.call.acquired();
        let status = LockStatus::Held(LockHandle::new(&held));
        self.run(status, Some(held))
    }

    fn refused(mut self, reason: RejectReason) -> Stage<S::Future, S, B> {
        match self.call.without_lock(reason, self.request.extensions()) {
            Instead::GoOn(unlocked) => self.run(LockStatus::Unlocked(unlocked), None),
            Instead::Answer(response) => Stage::Refused { response: Some(response) },
        }
    }

    fn run(mut self, status: LockStatus, held: Option<Arc<Held>>) -> Stage<S::Future, S, B> {
        let extensions = self.request.extensions_mut();
        extensions.insert(status);
        if let Some(keep) = self.call.keep(held.as_ref()) {
            extensions.insert(keep);
        }
        let watch = held.map(|held| Watch::new(held, self.call.config.on_lost()));
        let handler = self.service.call(self.request);
        Stage::Running { handler, watch, call: self.call }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    type Output = Result<Response<LockedBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        loop {
            let next = match stage.as_mut().project() {
                StageProj::Passing { handler } => {
                    return handler.poll(cx).map_ok(|response| response.map(LockedBody::unlocked));
                }
                StageProj::Naming { name, waiting } => {
                    let name = ready!(name.as_mut().poll(cx));
                    take(waiting).named(name)
                }
                StageProj::Acquiring { acquire, waiting } => {
                    let guard = ready!(Pin::new(acquire).poll(cx));
                    take(waiting).acquired(guard)
                }
                StageProj::Running { handler, watch, call } => {
                    if let Some(Poll::Ready(reason)) = watch.as_mut().map(|watch| watch.poll_lost(cx)) {
                        Stage::Refused { response: Some(call.reject(RejectReason::Lost(reason))) }
                    } else {
                        let response = ready!(handler.poll(cx));
                        // A response that was made after the lease must not look like a success.
                        match (response, watch.as_ref().and_then(Watch::lost_now)) {
                            (Ok(_), Some(reason)) => {
                                Stage::Refused { response: Some(call.reject(RejectReason::Lost(reason))) }
                            }
                            (response, _) => {
                                let watch = watch.take();
                                return Poll::Ready(response.map(|response| hold_on(response, watch, call)));
                            }
                        }
                    }
                }
                StageProj::Refused { response } => {
                    let response = take(response);
                    return Poll::Ready(Ok(response.map(LockedBody::ready_made)));
                }
            };
            stage.set(next);
        }
    }
}

/// Gives the lock to the body, unless there is nothing left to protect.
fn hold_on<R: Body>(response: Response<R>, watch: Option<Watch>, call: &Call) -> Response<LockedBody<R>> {
    let ends_here =
        call.config.release_on.ends_with(response.status(), &call.method) || response.body().is_end_stream();
    let watch = watch.filter(|_| !ends_here);
    response.map(|body| LockedBody::new(body, watch))
}

/// What is there until the future has moved on.
#[track_caller]
fn take<T>(slot: &mut Option<T>) -> T {
    match slot.take() {
        Some(value) => value,
        None => panic!("`ResponseFuture` polled after completion"),
    }
}
