//! The future that reads the upload and then calls the service.

use super::{
    body::BufferedBody,
    upload::{Failure, Upload},
};
use crate::{body::LockedBody, error::BoxError};
use http::{Request, Response, request::Parts};
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Sleep;
use tower_service::Service;

pin_project! {
    /// The future of a [`BufferRequest`](super::BufferRequest).
    ///
    /// # Cancel safety
    /// Dropping the future drops the upload, or the call to the inner service.
    #[must_use = "futures do nothing unless polled"]
    pub struct BufferRequestFuture<S, B>
    where
        S: Service<Request<BufferedBody>>,
    {
        #[pin]
        stage: Stage<S::Future, S, B>,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<F, S, B> {
        Uploading { #[pin] upload: Upload<B>, #[pin] timeout: Sleep, then: Option<(S, Request<()>)> },
        Calling { #[pin] handler: F },
    }
}

impl<S, B> BufferRequestFuture<S, B>
where
    S: Service<Request<BufferedBody>>,
{
    pub(super) fn new(service: S, parts: Parts, upload: Upload<B>, timeout: Duration) -> Self {
        let then = Some((service, Request::from_parts(parts, ())));
        Self { stage: Stage::Uploading { upload, timeout: tokio::time::sleep(timeout), then } }
    }
}

impl<S, B, R> Future for BufferRequestFuture<S, B>
where
    S: Service<Request<BufferedBody>, Response = Response<R>>,
    B: Body,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<LockedBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        loop {
            let (upload, timeout, then) = match stage.as_mut().project() {
                StageProj::Uploading { upload, timeout, then } => (upload, timeout, then),
                StageProj::Calling { handler } => {
                    return handler.poll(cx).map_ok(|response| response.map(LockedBody::unlocked));
                }
            };
            let body = match upload.poll_upload(cx) {
                Poll::Ready(Ok(body)) => body,
                Poll::Ready(Err(failure)) => return Poll::Ready(Ok(failure.answer())),
                Poll::Pending => {
                    ready!(timeout.poll(cx));
                    return Poll::Ready(Ok(Failure::TooSlow.answer()));
                }
            };
            let Some((mut service, request)) = then.take() else {
                panic!("`BufferRequestFuture` polled after completion")
            };
            let handler = service.call(request.map(|()| body));
            stage.set(Stage::Calling { handler });
        }
    }
}
