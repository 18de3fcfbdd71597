//! A handler that runs to the head of its response, with or without a lock.

use crate::{body::LockedBody, handle::Watch, request::LockRequest};
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
