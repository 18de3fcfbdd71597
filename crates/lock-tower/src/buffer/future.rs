//! First the upload, then the service.

use super::{
    BufferRequestLayer, BufferedBody,
    budget::{Exceeded, Reservation},
};
use crate::{
    BoxError, LockedBody,
    reject::{Details, RejectionBody, boxed, kind},
};
use bytes::{Buf, BufMut, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
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

/// More are read after others had their turn.
const FRAMES_AT_ONCE: usize = 128;

/// Others are served meanwhile.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pin_project! {
    /// The future of a [`BufferRequest`](super::BufferRequest).
    ///
    /// # Cancel safety
    /// Dropping it drops the upload, or the call of the service inside.
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

pin_project! {
    struct Upload<B> {
        #[pin]
        body: B,
        data: BytesMut,
        trailers: Option<HeaderMap>,
        limit: usize,
        reservation: Reservation,
    }
}

impl<S, B> BufferRequestFuture<S, B>
where
    S: Service<Request<BufferedBody>>,
{
    pub(super) fn new(service: S, request: Request<B>, layer: &BufferRequestLayer) -> Self {
        let (parts, body) = request.into_parts();
        let limit = layer.limit.min(layer.budget.total());
        let reservation = layer.budget.reservation();
        let upload = Upload { body, data: BytesMut::new(), trailers: None, limit, reservation };
        let then = Some((service, Request::from_parts(parts, ())));
        Self { stage: Stage::Uploading { upload, timeout: tokio::time::sleep(layer.timeout), then } }
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

impl<B> Upload<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    fn poll_upload(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<BufferedBody, Failure>> {
        let mut this = self.project();
        let limit = u64::try_from(*this.limit).unwrap_or(u64::MAX);
        if this.data.is_empty() && this.body.size_hint().lower() > limit {
            return Poll::Ready(Err(Failure::TooLarge));
        }
        for _ in 0..FRAMES_AT_ONCE {
            let Some(frame) = ready!(this.body.as_mut().poll_frame(cx)) else {
                let data = this.reservation.take().keep_for(std::mem::take(this.data).freeze());
                return Poll::Ready(Ok(BufferedBody::new(data, this.trailers.take())));
            };
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    let error: BoxError = error.into();
                    tracing::debug!(error = %error, "the upload failed");
                    return Poll::Ready(Err(Failure::Broken));
                }
            };
            match frame.into_data() {
                Ok(data) if data.remaining() > *this.limit - this.data.len() => {
                    return Poll::Ready(Err(Failure::TooLarge));
                }
                Ok(data) => {
                    if let Err(Exceeded) = this.reservation.grow(data.remaining()) {
                        return Poll::Ready(Err(Failure::BufferFull));
                    }
                    this.data.put(data);
                }
                Err(frame) => *this.trailers = frame.into_trailers().ok().or(this.trailers.take()),
            }
        }
        // A body that is always ready lets others run, and its time-out be looked at.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Why a request did not arrive.
enum Failure {
    TooLarge,
    TooSlow,
    Broken,
    BufferFull,
}

impl Failure {
    fn answer<R>(&self) -> Response<LockedBody<R>> {
        let details = match self {
            Self::TooLarge => Details::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                kind::UPLOAD_TOO_LARGE,
                "the request is too large",
            ),
            Self::TooSlow => Details::new(
                StatusCode::REQUEST_TIMEOUT,
                kind::UPLOAD_TIMEOUT,
                "the request did not arrive in time",
            ),
            Self::Broken => {
                Details::new(StatusCode::BAD_REQUEST, kind::UPLOAD_FAILED, "the request could not be read")
            }
            Self::BufferFull => Details::new(
                StatusCode::SERVICE_UNAVAILABLE,
                kind::BUFFER_FULL,
                "too many bytes of other requests wait already",
            )
            .retry_after(RETRY_AFTER),
        };
        let response: Response<RejectionBody> = details.into_response().map(boxed);
        response.map(LockedBody::ready_made)
    }
}
