//! The task that runs one handler to the end of its body, with or without a client.

use super::tasks::{DetachedTasks, TaskSlot};
use crate::{
    error::BoxError,
    handle::{Held, Watch},
    log::OutageLine,
    policy::{OnLost, ReleaseOn, is_bodiless},
};
use http::{Response, response};
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

/// The lock that a handler's task holds, and its settings. The layer adds it to the request's
/// extensions for the inner detaching service.
#[derive(Clone)]
pub(crate) struct KeepLock {
    pub(crate) tasks: DetachedTasks,
    /// The permit that counts against the task limit until the last clone is dropped.
    pub(crate) _slot: Arc<TaskSlot>,
    pub(crate) held: Option<Arc<Held>>,
    pub(crate) on_lost: OnLost,
    pub(crate) release_on: ReleaseOn,
    pub(crate) asks_for_head: bool,
}

/// A response head, with the body's size and end as reported before its first frame.
pub(super) struct Head {
    pub(super) parts: response::Parts,
    pub(super) size: SizeHint,
    pub(super) ended: bool,
}

/// A frame of the body, marked if it is the last.
pub(super) struct BodyFrame<D> {
    pub(super) frame: Option<Result<Frame<D>, BoxError>>,
    pub(super) last: bool,
}

pub(super) type Frames<D> = mpsc::Sender<BodyFrame<D>>;

/// Completes once the handler has run without its client for longer than `max_orphan_time`.
pub(super) async fn abandon_after<D>(max_orphan_time: Duration, log: Arc<OutageLine>, frames: Frames<D>) {
    frames.closed().await;
    tokio::time::sleep(max_orphan_time).await;
    if let Some(left_out) = log.due() {
        tracing::warn!(
            ?max_orphan_time,
            left_out,
            "detached handler dropped: it ran too long after its client disconnected"
        );
    }
}

/// Runs the handler. If the senders are dropped without a message, the handler was stopped or panicked.
pub(super) async fn run_to_end<F, R, E>(
    handler: Pin<Box<F>>,
    keep: KeepLock,
    head: oneshot::Sender<Result<Head, E>>,
    frames: Frames<R::Data>,
) where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
    R::Error: Into<BoxError>,
{
    let mut watch = keep.held.map(|held| Watch::new(held, keep.on_lost));
    // Variables are dropped in reverse order, and before the parameters: if the task ends early, the handler is dropped
    // before its lock.
    let mut handler = handler;
    let response = tokio::select! {
        biased;
        // The layer also detects the loss, and responds.
        () = lost(&mut watch) => return,
        response = &mut handler => response,
    };
    drop(handler);
    let (parts, body) = match response {
        Ok(response) => response.into_parts(),
        Err(error) => return drop(head.send(Err(error))),
    };
    if keep.release_on.ends_with(parts.status, keep.asks_for_head) {
        release(&mut watch);
    }
    let bodiless = is_bodiless(parts.status, keep.asks_for_head);
    let (size, ended) = (body.size_hint(), body.is_end_stream());
    // The client may have disconnected, here and below.
    let _ = head.send(Ok(Head { parts, size, ended }));
    if bodiless {
        // The body is dropped, as it would be without a task, because it may be endless.
        let _ = frames.send(BodyFrame { frame: None, last: true }).await;
    } else if !ended {
        send_body(pin!(body), &mut watch, &frames).await;
    }
}

async fn send_body<R>(mut body: Pin<&mut R>, watch: &mut Option<Watch>, frames: &Frames<R::Data>)
where
    R: Body,
    R::Error: Into<BoxError>,
{
    loop {
        // A body that is always ready and has no client to wait for would starve other tasks on its
        // thread.
        tokio::task::consume_budget().await;
        let frame = tokio::select! {
            biased;
            // The layer also detects the loss, and truncates the body.
            () = lost(watch) => return,
            frame = poll_fn(|cx| body.as_mut().poll_frame(cx)) => frame.map(|frame| frame.map_err(Into::into)),
        };
        let last = !matches!(frame, Some(Ok(_))) || body.is_end_stream();
        if last {
            // The layer's share of the lock covers the remaining transfer to the client.
            release(watch);
        }
        tokio::select! {
            biased;
            // A client that reads slowly delays the handler, but not beyond the end of the lock.
            () = lost(watch) => return,
            _ = frames.send(BodyFrame { frame, last }) => {}
        }
        if last {
            return;
        }
    }
}

fn release(watch: &mut Option<Watch>) {
    if let Some(watch) = watch.take() {
        watch.release();
    }
}

async fn lost(watch: &mut Option<Watch>) {
    poll_fn(|cx| Watch::poll_lost(watch, cx).map(drop)).await;
}

/// Resumes a handler's panic in its client's task. Completes if the handler did not panic.
pub(super) fn poll_panic(task: &mut JoinHandle<()>, cx: &mut Context<'_>) -> Poll<()> {
    match ready!(Pin::new(task).poll(cx)) {
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Ok(()) | Err(_) => Poll::Ready(()),
    }
}
