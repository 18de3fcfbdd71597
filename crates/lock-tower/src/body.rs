//! A response body that holds a lock.

use crate::{
    handle::Watch,
    reject::{BoxError, RejectionBody},
};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use lock_core::LostReason;
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tracing::Span;

pin_project! {
    #[project = LockedBodyProj]
    /// A response body: either the handler's, which may still hold the lock, or a rejection's.
    ///
    /// The lock is released once the handler's body ends, fails or reports that it has ended, or when this body is
    /// dropped.
    pub struct LockedBody<B> {
        // Dropped before the lock.
        #[pin]
        source: Source<B>,
        watch: Option<Watch>,
    }
}

pin_project! {
    #[project = SourceProj]
    enum Source<B> {
        Handler { #[pin] body: B },
        ReadyMade { body: RejectionBody },
        /// Ended or truncated. The handler's body was dropped before the lock.
        Ended,
    }
}

impl<B> LockedBody<B> {
    pub(crate) fn new(body: B, watch: Option<Watch>) -> Self {
        Self { source: Source::Handler { body }, watch }
    }

    pub(crate) fn unlocked(body: B) -> Self {
        Self::new(body, None)
    }

    pub(crate) fn ready_made(body: RejectionBody) -> Self {
        Self { source: Source::ReadyMade { body }, watch: None }
    }
}

impl<B> LockedBodyProj<'_, B> {
    /// Truncates the body because its lock was lost.
    fn cut(&mut self, reason: LostReason) -> BoxError {
        self.source.set(Source::Ended);
        *self.watch = None;
        LockLost(reason).into()
    }
}

impl<B> Body for LockedBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let mut this = self.project();
        let (frame, ended) = match this.source.as_mut().project() {
            SourceProj::Handler { mut body } => {
                // The first poll may come long after the head.
                if let Some(reason) = Watch::check(this.watch) {
                    return Poll::Ready(Some(Err(this.cut(reason))));
                }
                let span = this.watch.as_ref().map_or_else(Span::none, Watch::span);
                let Poll::Ready(frame) = span.in_scope(|| body.as_mut().poll_frame(cx)) else {
                    let reason = ready!(Watch::poll_lost(this.watch, cx));
                    return Poll::Ready(Some(Err(this.cut(reason))));
                };
                let ended = !matches!(frame, Some(Ok(_))) || body.is_end_stream();
                (frame.map(|frame| frame.map_err(Into::into)), ended)
            }
            SourceProj::ReadyMade { body } => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                (frame.map(|frame| frame.map(|frame| frame.map_data(B::Data::from))), false)
            }
            SourceProj::Ended => (None, true),
        };
        // hyper may not poll again after the last frame.
        let lost = if ended && let Some(watch) = this.watch.take() {
            this.source.set(Source::Ended);
            watch.release()
        } else {
            Watch::check(this.watch)
        };
        // The end must not look like a success if the lock has been lost.
        match lost.filter(|_| !matches!(frame, Some(Err(_)))) {
            Some(reason) => Poll::Ready(Some(Err(this.cut(reason)))),
            None => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Handler { body } => body.is_end_stream(),
            Source::ReadyMade { body } => body.is_end_stream(),
            Source::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Handler { body } => body.size_hint(),
            Source::ReadyMade { body } => body.size_hint(),
            Source::Ended => SizeHint::with_exact(0),
        }
    }
}

impl<B> fmt::Debug for LockedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedBody").field("locked", &self.watch.is_some()).finish_non_exhaustive()
    }
}

/// The error that ends a response body after its lock was lost. Treat the bytes before it as
/// incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lock was lost before the response was complete")]
pub struct LockLost(#[source] pub LostReason);
