//! The body of a detached handler, as its client receives it.

use super::task::{Piece, poll_panic};
use crate::BoxError;
use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    error::Error,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{sync::mpsc, task::JoinHandle};

pin_project! {
    /// The body of a response that may come from a task.
    pub struct DetachedBody<R> where R: Body {
        #[pin]
        way: Way<R>,
    }
}

pin_project! {
    #[project = WayProj]
    enum Way<R> where R: Body {
        Straight { #[pin] body: R },
        Piped { pipe: Option<Pipe<R::Data>>, size: SizeHint },
    }
}

type Pipe<D> = (mpsc::Receiver<Piece<D>>, JoinHandle<()>);

impl<R: Body> DetachedBody<R> {
    pub(super) fn straight(body: R) -> Self {
        Self { way: Way::Straight { body } }
    }

    pub(super) fn piped(pipe: Option<Pipe<R::Data>>, size: SizeHint, ended: bool) -> Self {
        Self { way: Way::Piped { pipe: pipe.filter(|_| !ended), size } }
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
        let (pipe, size) = match self.project().way.project() {
            WayProj::Straight { body } => {
                return body.poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)));
            }
            WayProj::Piped { pipe, size } => (pipe, size),
        };
        let Some((frames, task)) = pipe else { return Poll::Ready(None) };
        let frame = match ready!(frames.poll_recv(cx)) {
            Some(Piece { frame, last }) => {
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
        match &self.way {
            Way::Straight { body } => body.is_end_stream(),
            Way::Piped { pipe, .. } => pipe.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.way {
            Way::Straight { body } => body.size_hint(),
            Way::Piped { size, .. } => *size,
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

/// The task ended before its body: its lock was lost, or its runtime ends.
#[derive(Debug)]
struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the handler was stopped before its response had ended")
    }
}

impl Error for Stopped {}
