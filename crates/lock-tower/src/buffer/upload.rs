//! The upload of one request, within its limit and the budget.

use super::{
    body::BufferedBody,
    budget::{Budget, Exceeded, Reservation},
};
use crate::{
    body::LockedBody,
    error::BoxError,
    reject::{Details, RejectionBody, boxed, kind},
};
use bytes::{Buf, BufMut, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use http_body_util::{LengthLimitError, Limited};
use pin_project_lite::pin_project;
use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

/// The number of frames after which an always-ready body yields to other tasks and to its timeout.
const FRAMES_PER_POLL: usize = 128;

/// The minimum delay suggested before a retry. Other requests are likely to free the budget within it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pin_project! {
    // `http_body_util::Collected` would keep the received frames. A one-byte frame can keep
    // kilobytes of buffer alive, which the budget would not count, so the bytes are copied.
    pub(super) struct Upload<B> {
        #[pin]
        body: Limited<B>,
        too_large: bool,
        data: BytesMut,
        trailers: Option<HeaderMap>,
        reservation: Reservation,
    }
}

impl<B: Body> Upload<B> {
    pub(super) fn new(body: B, limit: usize, budget: &Budget) -> Self {
        let limit = limit.min(budget.total());
        Self {
            too_large: body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX),
            body: Limited::new(body, limit),
            data: BytesMut::new(),
            trailers: None,
            reservation: budget.reservation(),
        }
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
        // Polling would make the client send the body.
        if *this.too_large {
            return Poll::Ready(Err(Failure::TooLarge));
        }
        for _ in 0..FRAMES_PER_POLL {
            let Some(frame) = ready!(this.body.as_mut().poll_frame(cx)) else {
                let data = this.reservation.take().keep_for(std::mem::take(this.data).freeze());
                return Poll::Ready(Ok(BufferedBody::new(data, this.trailers.take())));
            };
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => return Poll::Ready(Err(Failure::of(&*error))),
            };
            match frame.into_data() {
                Ok(data) => {
                    if let Err(Exceeded) = this.reservation.grow(data.remaining()) {
                        return Poll::Ready(Err(Failure::BufferFull));
                    }
                    this.data.put(data);
                }
                Err(frame) => *this.trailers = frame.into_trailers().ok().or(this.trailers.take()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The reason why a request body could not be read.
pub(super) enum Failure {
    TooLarge,
    TooSlow,
    Broken,
    BufferFull,
}

impl Failure {
    /// Converts a body error. A limit outside this layer fails with the same error, possibly
    /// wrapped in another.
    fn of(error: &(dyn Error + 'static)) -> Self {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        if causes.any(|error| error.is::<LengthLimitError>()) {
            return Self::TooLarge;
        }
        tracing::debug!(error, "failed to read the request body");
        Self::Broken
    }

    pub(super) fn answer<R>(&self) -> Response<LockedBody<R>> {
        let details = match self {
            Self::TooLarge => Details::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                kind::UPLOAD_TOO_LARGE,
                "the request body is too large",
            ),
            Self::TooSlow => Details::new(
                StatusCode::REQUEST_TIMEOUT,
                kind::UPLOAD_TIMEOUT,
                "the request body did not arrive in time",
            ),
            Self::Broken => Details::new(
                StatusCode::BAD_REQUEST,
                kind::UPLOAD_FAILED,
                "the request body could not be read",
            ),
            Self::BufferFull => Details::new(
                StatusCode::SERVICE_UNAVAILABLE,
                kind::BUFFER_FULL,
                "the buffer for request bodies is full",
            )
            .retry_after(RETRY_AFTER),
        };
        let response: Response<RejectionBody> = details.into_response().map(boxed);
        response.map(LockedBody::ready_made)
    }
}
