//! The future of a request whose handler requests its lock.

use super::claim::{Claim, Decision};
use crate::{body::LockedBody, request::LockRequest, service::Running};
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tracing::Span;

pin_project! {
    /// The future of an [`InHandlerService`](super::InHandlerService).
    ///
    /// # Cancel safety
    /// Dropping the future drops the handler and releases the lock in the background. A waiting request leaves the
    /// queue.
    #[must_use = "futures do nothing unless polled"]
    pub struct InHandlerFuture<F> {
        #[pin]
        stage: Stage<F>,
        span: Span,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<F> {
        NoLockNeeded { #[pin] handler: F },
        Running { #[pin] running: Running<F>, claim: Claim, lock: LockRequest },
        /// The handler has ended, or the layer has responded in its place.
        Done,
    }
}

impl<F> InHandlerFuture<F> {
    pub(super) fn no_lock_needed(handler: F) -> Self {
        Self { stage: Stage::NoLockNeeded { handler }, span: Span::none() }
    }

    pub(super) fn new(handler: F, claim: Claim, lock: LockRequest) -> Self {
        let span = lock.observers.span().clone();
        Self { stage: Stage::Running { running: Running::new(handler, None), claim, lock }, span }
    }
}

impl<F, R, E> Future for InHandlerFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Result<Response<LockedBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let _entered = this.span.enter();
        let mut stage = this.stage;
        loop {
            let response = match stage.as_mut().project() {
                StageProj::NoLockNeeded { handler } => {
                    return handler.poll(cx).map_ok(|response| response.map(LockedBody::unlocked));
                }
                StageProj::Running { mut running, claim, lock } => match running.as_mut().poll_head(lock, cx)
                {
                    Poll::Ready(response) => response,
                    Poll::Pending => match ready!(claim.poll(lock, cx)) {
                        Decision::GoOn(watch) => {
                            running.watch(watch);
                            continue;
                        }
                        Decision::Reject(rejection) => Ok(rejection.map(LockedBody::ready_made)),
                    },
                },
                StageProj::Done => panic!("`InHandlerFuture` polled after completion"),
            };
            // Drops the claim: a task that the handler spawned may still be waiting for the lock, and the caller may
            // keep this future.
            stage.set(Stage::Done);
            return Poll::Ready(response);
        }
    }
}
