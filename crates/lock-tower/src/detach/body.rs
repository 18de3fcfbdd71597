//! The response body of a detached handler.

use super::task::{BodyFrame, poll_panic};
use crate::error::BoxError;
use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{sync::mpsc, task::JoinHandle};

pin_project! {
    /// A response body, which comes from a task if the handler is detached.
    pub struct DetachedBody<R> where R: Body {
        #[pin]
        mode: Mode<R>,
    }
}

pin_project! {
    #[project = ModeProj]
    enum Mode<R> where R: Body {
        Inline { #[pin] body: R },
        Piped { pipe: Option<Pipe<R::Data>>, size: SizeHint },
    }
}

type Pipe<D> = (mpsc::Receiver<BodyFrame<D>>, JoinHandle<()>);

impl<R: Body> DetachedBody<R> {
    pub(super) fn inline(body: R) -> Self {
        Self { mode: Mode::Inline { body } }
    }

    pub(super) fn piped(pipe: Option<Pipe<R::Data>>, size: SizeHint, ended: bool) -> Self {
        Self { mode: Mode::Piped { pipe: pipe.filter(|_| !ended), size } }
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
        let (pipe, size) = match self.project().mode.project() {
            ModeProj::Inline { body } => {
                return body.poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)));
            }
            ModeProj::Piped { pipe, size } => (pipe, size),
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
        match &self.mode {
            Mode::Inline { body } => body.is_end_stream(),
            Mode::Piped { pipe, .. } => pipe.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.mode {
            Mode::Inline { body } => body.size_hint(),
            Mode::Piped { size, .. } => *size,
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
