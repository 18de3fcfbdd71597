//! Both ends of a detached handler: its task, and the future and the body through which its client follows it.

use super::{DetachedTasks, Disconnect, Keep, KeepLock};
use crate::{handle::Watch, log::OutageLine, policy::is_bodiless, reject::BoxError};
use bytes::Buf;
use http::{Response, response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    fmt,
    future::{Future, poll_fn},
    marker::PhantomData,
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
use tracing::Instrument;

impl<F, R, E> Disconnect<F> for DetachedTasks
where
    F: Future<Output = Result<Response<R>, E>> + Send + 'static,
    E: Send + 'static,
    R: Body + Send + 'static,
    R::Data: Send + 'static,
    R::Error: Into<BoxError>,
{
    type Future = DetachFuture<F, R, E>;

    fn run(handler: F, keep: Keep) -> Self::Future {
        let mode = match keep {
            Keep::Nothing => Mode::Inline { handler },
            Keep::Now(keep) => Mode::detached(Box::pin(handler), keep),
            Keep::Later(keep) => Mode::Attached { handler: Some(Box::pin(handler)), keep: Some(keep) },
        };
        DetachFuture { mode }
    }
}

pin_project! {
    /// The future of a handler that may be detached.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop a handler that runs in its own task. Any other handler is dropped.
    #[must_use = "futures do nothing unless polled"]
    pub struct DetachFuture<F, R, E> where R: Body {
        #[pin]
        mode: Mode<F, R, E>,
    }
}

/// The frames of a handler's body, and the task that sends them.
type Pipe<D> = (mpsc::Receiver<BodyFrame<D>>, JoinHandle<()>);

pin_project! {
    #[project = ModeProj]
    enum Mode<F, R, E> where R: Body {
        Inline { #[pin] handler: F },
        /// The handler has no lock yet. Until it has one, a client disconnect drops it.
        Attached { handler: Option<Pin<Box<F>>>, keep: Option<oneshot::Receiver<KeepLock>> },
        Detached {
            head: Option<oneshot::Receiver<Result<Head, E>>>,
            rest: Option<Pipe<R::Data>>,
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
        let abandoned = abandon_after(tasks.max_orphan_time, tasks.log.clone(), frames.clone());
        let running = run_to_end::<_, R, _>(handler, keep, head, frames);
        let running = async move {
            tokio::select! {
                biased;
                () = running => {}
                () = abandoned => {}
            }
        };
        // `DetachedTasks::drain` waits for the task, which stops if its lock is lost.
        let task = tasks.tracker.spawn(running.in_current_span());
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
    rest: &mut Option<Pipe<R::Data>>,
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

pin_project! {
    /// A response body, which comes from a task if the handler is detached.
    pub struct DetachedBody<R> where R: Body {
        #[pin]
        source: Source<R>,
    }
}

pin_project! {
    #[project = SourceProj]
    enum Source<R> where R: Body {
        Inline { #[pin] body: R },
        Piped { pipe: Option<Pipe<R::Data>>, size: SizeHint },
    }
}

impl<R: Body> DetachedBody<R> {
    fn inline(body: R) -> Self {
        Self { source: Source::Inline { body } }
    }

    fn piped(pipe: Option<Pipe<R::Data>>, size: SizeHint, ended: bool) -> Self {
        Self { source: Source::Piped { pipe: pipe.filter(|_| !ended), size } }
    }
}

impl<R> Body for DetachedBody<R>
where
    R: Body,
    R::Error: Into<BoxError>,
{
    type Data = R::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, BoxError>>> {
        let (pipe, size) = match self.project().source.project() {
            SourceProj::Inline { body } => {
                return body.poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)));
            }
            SourceProj::Piped { pipe, size } => (pipe, size),
        };
        let Some((frames, task)) = pipe else { return Poll::Ready(None) };
        let frame = match ready!(frames.poll_recv(cx)) {
            Some(BodyFrame { frame, last }) => {
                if last {
                    *pipe = None;
                }
                frame
            }
            None => {
                ready!(poll_panic(task, cx));
                *pipe = None;
                Some(Err(Stopped.into()))
            }
        };
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            *size = less(size, data.remaining());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Inline { body } => body.is_end_stream(),
            Source::Piped { pipe, .. } => pipe.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Inline { body } => body.size_hint(),
            Source::Piped { size, .. } => *size,
        }
    }
}

fn less(size: &SizeHint, bytes: usize) -> SizeHint {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let mut rest = SizeHint::new();
    rest.set_lower(size.lower().saturating_sub(bytes));
    if let Some(upper) = size.upper() {
        rest.set_upper(upper.saturating_sub(bytes).max(rest.lower()));
    }
    rest
}

impl<R: Body> fmt::Debug for DetachedBody<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedBody").finish_non_exhaustive()
    }
}

/// The error for a task that ended before its body, because its lock was lost or the runtime shut
/// down.
#[derive(Debug, thiserror::Error)]
#[error("the handler was stopped before its response was complete")]
struct Stopped;

/// A response head, with the body's size and end as reported before its first frame.
struct Head {
    parts: response::Parts,
    size: SizeHint,
    ended: bool,
}

/// A frame of the body, marked if it is the last.
struct BodyFrame<D> {
    frame: Option<Result<Frame<D>, BoxError>>,
    last: bool,
}

type Frames<D> = mpsc::Sender<BodyFrame<D>>;

/// Completes once the handler has run without its client for longer than `max_orphan_time`.
async fn abandon_after<D>(max_orphan_time: Duration, log: Arc<OutageLine>, frames: Frames<D>) {
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
async fn run_to_end<F, R, E>(
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
fn poll_panic(task: &mut JoinHandle<()>, cx: &mut Context<'_>) -> Poll<()> {
    match ready!(Pin::new(task).poll(cx)) {
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Ok(()) | Err(_) => Poll::Ready(()),
    }
}
