//! The service that runs each handler in its own task.

use super::{
    body::DetachedBody,
    task::{BodyFrame, Head, KeepLock, abandon_after, poll_panic, run_to_end},
};
use crate::{error::BoxError, in_handler::LockSlot};
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tower_service::Service;
use tracing::Instrument;

/// A service that sits between a [`LockService`](crate::service::LockService) and the inner
/// service, and runs each handler in its own task.
#[derive(Debug, Clone)]
pub struct DetachService<S> {
    inner: S,
}

impl<S> DetachService<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }

    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> Service<Request<B>> for DetachService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    R: Body + Send + 'static,
    R::Data: Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<DetachedBody<R>>;
    type Error = S::Error;
    type Future = DetachFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let keep = request.extensions_mut().remove::<KeepLock>();
        let later = request.extensions().get::<LockSlot>().and_then(LockSlot::take_keep);
        let handler = self.inner.call(request);
        let mode = match (keep, later) {
            (Some(keep), _) => Mode::detached(Box::pin(handler), keep),
            (None, Some(keep)) => Mode::Attached { handler: Some(Box::pin(handler)), keep: Some(keep) },
            (None, None) => Mode::Inline { handler },
        };
        DetachFuture { mode }
    }
}

pin_project! {
    /// The future of a [`DetachService`].
    ///
    /// # Cancel safety
    /// Dropping the future does not stop a handler that runs in its own task. Any other handler is dropped.
    #[must_use = "futures do nothing unless polled"]
    pub struct DetachFuture<F, R, E> where R: Body {
        #[pin]
        mode: Mode<F, R, E>,
    }
}

type Rest<D> = (mpsc::Receiver<BodyFrame<D>>, JoinHandle<()>);

pin_project! {
    #[project = ModeProj]
    enum Mode<F, R, E> where R: Body {
        Inline { #[pin] handler: F },
        /// The handler has no lock yet. Until it has one, a client disconnect drops it.
        Attached { handler: Option<Pin<Box<F>>>, keep: Option<oneshot::Receiver<KeepLock>> },
        Detached {
            head: Option<oneshot::Receiver<Result<Head, E>>>,
            rest: Option<Rest<R::Data>>,
            _body: PhantomData<fn() -> R>,
        },
    }
}

impl<F, R, E> Mode<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>> + Send + 'static,
    E: Send + 'static,
    R: Body + Send + 'static,
    R::Data: Send + 'static,
    R::Error: Into<BoxError>,
{
    /// Moves a handler to its own task.
    fn detached(handler: Pin<Box<F>>, keep: KeepLock) -> Self {
        let tasks = keep.tasks.clone();
        let (head, waits_for_head) = oneshot::channel();
        // The handler is at most one frame ahead of the client.
        let (frames, waits_for_frames) = mpsc::channel(1);
        let abandoned = abandon_after(tasks.orphan_time_limit(), tasks.log(), frames.clone());
        let running = run_to_end::<_, R, _>(handler, keep, head, frames);
        let running = async move {
            tokio::select! {
                biased;
                () = running => {}
                () = abandoned => {}
            }
        };
        // `DetachedTasks::drain` waits for the task, which stops if its lock is lost.
        let task = tasks.tracker().spawn(running.in_current_span());
        Self::Detached {
            head: Some(waits_for_head),
            rest: Some((waits_for_frames, task)),
            _body: PhantomData,
        }
    }
}

impl<F, R, E> Future for DetachFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>> + Send + 'static,
    E: Send + 'static,
    R: Body + Send + 'static,
    R::Data: Send + 'static,
    R::Error: Into<BoxError>,
{
    type Output = Result<Response<DetachedBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut mode = self.project().mode;
        loop {
            match mode.as_mut().project() {
                ModeProj::Inline { handler } => {
                    return handler.poll(cx).map_ok(|response| response.map(DetachedBody::inline));
                }
                ModeProj::Attached { handler: attached, keep } => {
                    let Some(mut handler) = attached.take() else {
                        panic!("`DetachFuture` polled after completion")
                    };
                    let Some(keep) = poll_keep(keep, cx) else {
                        let polled = handler.as_mut().poll(cx);
                        *attached = Some(handler);
                        return polled.map_ok(|response| response.map(DetachedBody::inline));
                    };
                    mode.set(Mode::detached(handler, keep));
                }
                ModeProj::Detached { head, rest, .. } => return poll_detached(head, rest, cx),
            }
        }
    }
}

/// Returns the handler's lock once it is acquired.
fn poll_keep(keep: &mut Option<oneshot::Receiver<KeepLock>>, cx: &mut Context<'_>) -> Option<KeepLock> {
    match Pin::new(keep.as_mut()?).poll(cx) {
        Poll::Ready(came) => {
            *keep = None;
            came.ok()
        }
        Poll::Pending => None,
    }
}

fn poll_detached<R: Body, E>(
    head: &mut Option<oneshot::Receiver<Result<Head, E>>>,
    rest: &mut Option<Rest<R::Data>>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<DetachedBody<R>>, E>> {
    let Some((_, task)) = rest else { panic!("`DetachFuture` polled after completion") };
    if let Some(waits) = head {
        let came = ready!(Pin::new(waits).poll(cx));
        // Not polled again: a handler that panics drops its sender before its task ends.
        *head = None;
        if let Ok(came) = came {
            let body = rest.take();
            return Poll::Ready(came.map(|Head { parts, size, ended }| {
                Response::from_parts(parts, DetachedBody::piped(body, size, ended))
            }));
        }
    }
    ready!(poll_panic(task, cx));
    // The handler was stopped: either the lock is lost and the layer responds, or the runtime is
    // shutting down.
    Poll::Pending
}
