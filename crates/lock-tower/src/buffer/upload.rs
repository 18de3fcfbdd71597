//! The upload of one request: it arrives within its limit and the budget, or fails.

use super::{
    body::BufferedBody,
    budget::{Budget, Exceeded, Reservation},
};
use crate::{
    BoxError,
    body::LockedBody,
    reject::{Details, RejectionBody, boxed, kind},
};
use bytes::{Buf, BufMut, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

/// More are read after others had their turn.
const FRAMES_AT_ONCE: usize = 128;

/// Others are served meanwhile.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pin_project! {
    pub(super) struct Upload<B> {
        #[pin]
        body: B,
        data: BytesMut,
        trailers: Option<HeaderMap>,
        limit: usize,
        reservation: Reservation,
    }
}

impl<B> Upload<B> {
    pub(super) fn new(body: B, limit: usize, budget: &Budget) -> Self {
        let limit = limit.min(budget.total());
        Self { body, data: BytesMut::new(), trailers: None, limit, reservation: budget.reservation() }
    }
}

impl<B> Upload<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    pub(super) fn poll_upload(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BufferedBody, Failure>> {
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
pub(super) enum Failure {
    TooLarge,
    TooSlow,
    Broken,
    BufferFull,
}

impl Failure {
    pub(super) fn answer<R>(&self) -> Response<LockedBody<R>> {
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
