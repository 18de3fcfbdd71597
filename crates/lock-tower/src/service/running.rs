//! A handler that runs to the head of its response, with or without a lock.

use crate::{
    body::LockedBody,
    handle::Watch,
    reject::{RejectReason, RejectionBody},
    request::LockRequest,
};
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

pin_project! {
    #[project = RunningProj]
    /// A handler, and its share of the lock if it has one.
    // The handler is dropped before its lock.
    pub(crate) struct Running<F> {
        #[pin]
        handler: F,
        watch: Option<Watch>,
    }
}

/// The end of a handler.
pub(crate) enum HandlerEnd<T> {
    Answered(T),
    /// The lock was lost, so the layer responds.
    Stopped(Response<RejectionBody>),
}

impl<F> Running<F> {
    pub(crate) fn new(handler: F, watch: Option<Watch>) -> Self {
        Self { handler, watch }
    }

    /// Sets the handler's lock, which is then released with the response.
    pub(crate) fn watch(self: Pin<&mut Self>, watch: Option<Watch>) {
        *self.project().watch = watch;
    }

    /// Polls the handler. If the handler loses its lock, the caller drops it and responds instead.
    pub(crate) fn poll_head<R, E>(
        self: Pin<&mut Self>,
        lock: &LockRequest,
        cx: &mut Context<'_>,
    ) -> Poll<HandlerEnd<Result<Response<LockedBody<R>>, E>>>
    where
        F: Future<Output = Result<Response<R>, E>>,
        R: Body,
    {
        let RunningProj { handler, watch } = self.project();
        let reason = match ready!(Watch::poll_under(watch, cx, |cx| handler.poll(cx))) {
            Err(reason) => reason,
            // A response produced after the loss of the lock must not look like a success.
            Ok(response) => {
                let lost = watch.as_ref().filter(|_| response.is_ok()).and_then(Watch::lost_now);
                let Some(reason) = lost else {
                    let watch = watch.take();
                    let response = response.map(|response| keep_until_end(response, watch, lock));
                    return Poll::Ready(HandlerEnd::Answered(response));
                };
                reason
            }
        };
        Poll::Ready(HandlerEnd::Stopped(lock.reject(RejectReason::Lost(reason))))
    }
}

/// Passes the lock to the body, unless nothing is left to protect.
fn keep_until_end<R: Body>(
    response: Response<R>,
    watch: Option<Watch>,
    lock: &LockRequest,
) -> Response<LockedBody<R>> {
    let ends_here =
        lock.config.release_on.ends_with(response.status(), &lock.method) || response.body().is_end_stream();
    if !ends_here {
        return response.map(|body| LockedBody::new(body, watch));
    }
    if let Some(watch) = watch {
        watch.release();
    }
    response.map(LockedBody::unlocked)
}
