//! The upload of one request, within its limit and the budget of all uploads, and the body that it leaves.

use crate::{
    body::LockedBody,
    reject::{BoxError, Details, ProblemType, RejectionBody, boxed},
};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{LengthLimitError, Limited};
use pin_project_lite::pin_project;
use std::{
    convert::Infallible,
    error::Error,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

/// The number of frames after which an always-ready body yields to other tasks and to its timeout.
const FRAMES_PER_POLL: usize = 128;

/// The minimum delay suggested before a retry. Other requests are likely to free the budget within it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The complete body of a request, with its trailers.
#[derive(Debug, Clone, Default)]
pub struct BufferedBody {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

impl BufferedBody {
    fn new(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { data, trailers }
    }

    /// Returns the bytes that have not been read yet.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.data
    }

    /// Returns the bytes that have not been read yet.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.data
    }
}

impl Body for BufferedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = std::mem::take(&mut self.data);
        if !data.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.len() as u64)
    }
}

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
                ProblemType::UPLOAD_TOO_LARGE,
                "the request body is too large",
            ),
            Self::TooSlow => Details::new(
                StatusCode::REQUEST_TIMEOUT,
                ProblemType::UPLOAD_TIMEOUT,
                "the request body did not arrive in time",
            ),
            Self::Broken => Details::new(
                StatusCode::BAD_REQUEST,
                ProblemType::UPLOAD_FAILED,
                "the request body could not be read",
            ),
            Self::BufferFull => Details::new(
                StatusCode::SERVICE_UNAVAILABLE,
                ProblemType::BUFFER_FULL,
                "the buffer for request bodies is full",
            )
            .retry_after(RETRY_AFTER),
        };
        let response: Response<RejectionBody> = details.into_response().map(boxed);
        response.map(LockedBody::ready_made)
    }
}

/// A byte budget shared by a layer, its clones and all of their requests.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(super) fn new(total: usize) -> Self {
        Self(Arc::new(Shared { total, used: AtomicUsize::new(0) }))
    }

    fn total(&self) -> usize {
        self.0.total
    }

    fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }
}

/// The bytes reserved for one upload, returned to the budget on drop.
#[derive(Debug)]
struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Reservation {
    /// Takes the whole reservation and leaves an empty one.
    fn take(&mut self) -> Self {
        Self { bytes: std::mem::take(&mut self.bytes), budget: self.budget.clone() }
    }

    /// Enlarges the reservation, unless the budget would be exceeded.
    fn grow(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let Shared { total, used } = &*self.budget.0;
        let add = |used: usize| used.checked_add(bytes).filter(|used| used <= total);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_err(|_| Exceeded)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Counts these bytes until their last clone is dropped.
    fn keep_for(self, data: Bytes) -> Bytes {
        match data.is_empty() {
            true => data,
            false => Bytes::from_owner(Counted { data, _reservation: self }),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The error returned if the budget has too few bytes left.
struct Exceeded;

/// Bytes and their share of the budget; the bytes are dropped first.
struct Counted {
    data: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}
