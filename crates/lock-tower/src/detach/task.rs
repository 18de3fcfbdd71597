//! The task of one handler: runs it to the end of its body, whether or not somebody listens.

use super::tasks::{DetachedTasks, Slot};
use crate::{
    BoxError,
    handle::{Held, Watch},
    policy::{OnLost, ReleaseOn, is_bodiless},
};
use http::{Method, Response, response};
use http_body::{Body, Frame, SizeHint};
use std::{
    future::{Future, poll_fn},
    panic::resume_unwind,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// What the layer tells the service inside of it, in the extensions of a request: which lock to keep, and how long.
#[derive(Clone)]
pub(crate) struct Keep {
    pub(crate) tasks: DetachedTasks,
    /// Counted against the limit of the tasks until the last clone is dropped.
    pub(crate) _slot: Arc<Slot>,
    pub(crate) held: Option<Arc<Held>>,
    pub(crate) on_lost: OnLost,
    pub(crate) release_on: ReleaseOn,
    pub(crate) method: Method,
}

/// The head of a response, and what is known of its body before it comes.
pub(super) struct Head {
    pub(super) parts: response::Parts,
    pub(super) size: SizeHint,
    pub(super) ended: bool,
}

/// A frame, and whether it is the last.
pub(super) struct Piece<D> {
    pub(super) frame: Option<Result<Frame<D>, BoxError>>,
    pub(super) last: bool,
}

pub(super) type Frames<D> = mpsc::Sender<Piece<D>>;

/// Completes when the client has left so long ago that nobody may run for it any more.
pub(super) async fn left_alone<D>(frames: Frames<D>, most: Duration) {
    frames.closed().await;
    tokio::time::sleep(most).await;
    tracing::warn!(max_orphan_time = ?most, "a detached handler was dropped: it ran for too long after its client had left");
}

/// Runs the handler. Senders that are dropped without a word tell the other side that it was stopped, or panicked.
pub(super) async fn carry<F, R, E>(
    handler: F,
    keep: Keep,
    head: oneshot::Sender<Result<Head, E>>,
    frames: Frames<R::Data>,
) where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
    R::Error: Into<BoxError>,
{
    // Declared before the handler, and so dropped after it.
    let mut watch = keep.held.map(|held| Watch::new(held, keep.on_lost));
    let mut handler = Box::pin(handler);
    let response = tokio::select! {
        biased;
        // The layer waits for the same, and answers.
        () = lost(&mut watch) => return,
        response = &mut handler => response,
    };
    drop(handler);
    let (parts, body) = match response {
        Ok(response) => response.into_parts(),
        Err(error) => return drop(head.send(Err(error))),
    };
    if keep.release_on.ends_with(parts.status, &keep.method) {
        watch = None;
    }
    let bodiless = is_bodiless(parts.status, &keep.method);
    let (size, ended) = (body.size_hint(), body.is_end_stream());
    // Nobody may be there to hear it, here and below.
    let _ = head.send(Ok(Head { parts, size, ended }));
    if bodiless {
        // As without a task, where it is dropped: it may be endless.
        let _ = frames.send(Piece { frame: None, last: true }).await;
    } else if !ended {
        send(pin!(body), &mut watch, &frames).await;
    }
}

async fn send<R>(mut body: Pin<&mut R>, watch: &mut Option<Watch>, frames: &Frames<R::Data>)
where
    R: Body,
    R::Error: Into<BoxError>,
{
    loop {
        // A body that is always ready, and has no client to wait for, would keep its thread from all others.
        tokio::task::consume_budget().await;
        let frame = tokio::select! {
            biased;
            // The layer waits for the same, and cuts the body.
            () = lost(watch) => return,
            frame = poll_fn(|cx| body.as_mut().poll_frame(cx)) => frame.map(|frame| frame.map_err(Into::into)),
        };
        let last = !matches!(frame, Some(Ok(_))) || body.is_end_stream();
        if last {
            // What is left to protect is the way to the client, if there is one: that is the layer's.
            *watch = None;
        }
        tokio::select! {
            biased;
            // A client that reads slowly holds the handler up, but not beyond the lock.
            () = lost(watch) => return,
            _ = frames.send(Piece { frame, last }) => {}
        }
        if last {
            return;
        }
    }
}

async fn lost(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => drop(poll_fn(|cx| watch.poll_lost(cx)).await),
        None => std::future::pending().await,
    }
}

/// The panic of a handler goes on in the task of its client; completes if there was none.
pub(super) fn poll_panic(task: &mut JoinHandle<()>, cx: &mut Context<'_>) -> Poll<()> {
    match ready!(Pin::new(task).poll(cx)) {
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Ok(()) | Err(_) => Poll::Ready(()),
    }
}
