//! The service that runs the handler in a task of its own.

use super::{
    body::DetachedBody,
    task::{Head, Keep, Piece, carry, left_alone, poll_panic},
};
use crate::BoxError;
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

/// Runs requests that have a lock in tasks; between a [`LockService`](crate::LockService) and the service inside.
#[derive(Debug, Clone)]
pub struct DetachService<S> {
    inner: S,
}

impl<S> DetachService<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }

    /// The service inside.
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
        let Some(keep) = request.extensions_mut().remove::<Keep>() else {
            return DetachFuture { way: Way::Straight { handler: self.inner.call(request) } };
        };
        let tasks = keep.tasks.clone();
        let (head, waits_for_head) = oneshot::channel();
        // One frame ahead of the client.
        let (frames, waits_for_frames) = mpsc::channel(1);
        let left_alone = left_alone(frames.clone(), tasks.orphan_time_limit());
        let carried = carry::<_, R, _>(self.inner.call(request), keep, head, frames);
        let carried = async move {
            tokio::select! {
                biased;
                () = carried => {}
                () = left_alone => {}
            }
        };
        // The tracker of `tasks` is who waits for it; the lock's end is what stops it.
        let task = tasks.tracker().spawn(carried.in_current_span());
        DetachFuture {
            way: Way::Detached {
                head: Some(waits_for_head),
                rest: Some((waits_for_frames, task)),
                _body: PhantomData,
            },
        }
    }
}

pin_project! {
    /// The future of a [`DetachService`].
    ///
    /// # Cancel safety
    /// The handler runs on when this is dropped.
    #[must_use = "futures do nothing unless polled"]
    pub struct DetachFuture<F, R, E> where R: Body {
        #[pin]
        way: Way<F, R, E>,
    }
}

type Rest<D> = (mpsc::Receiver<Piece<D>>, JoinHandle<()>);

pin_project! {
    #[project = WayProj]
    enum Way<F, R, E> where R: Body {
        Straight { #[pin] handler: F },
        Detached { head: Option<oneshot::Receiver<Result<Head, E>>>, rest: Option<Rest<R::Data>>, _body: PhantomData<fn() -> R> },
    }
}

impl<F, R, E> Future for DetachFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Result<Response<DetachedBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (head, rest) = match self.project().way.project() {
            WayProj::Straight { handler } => {
                return handler.poll(cx).map_ok(|response| response.map(DetachedBody::straight));
            }
            WayProj::Detached { head, rest, .. } => (head, rest),
        };
        let Some((_, task)) = rest else { panic!("`DetachFuture` polled after completion") };
        if let Some(waits) = head {
            let came = ready!(Pin::new(waits).poll(cx));
            // Asked once: a handler that panics lets go of its end before its task has ended.
            *head = None;
            if let Ok(came) = came {
                let body = rest.take();
                return Poll::Ready(came.map(|Head { parts, size, ended }| {
                    Response::from_parts(parts, DetachedBody::piped(body, size, ended))
                }));
            }
        }
        ready!(poll_panic(task, cx));
        // It was stopped: the lock is lost, and the layer says so; or the runtime ends.
        Poll::Pending
    }
}
