//! The response of a handler: its body, the part of it that is stored, and its replay.

use crate::reject::{BoxError, Details, ProblemType, RejectionBody, boxed};
use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream::{self, Stream, StreamExt};
use http::{HeaderName, HeaderValue, Response, StatusCode, header, response::Parts};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// The header that marks a replay.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The headers that are stored by default, besides `Content-*`. Cookies and trace IDs belong to a
/// single response.
pub(super) const DEFAULT_HEADERS: [HeaderName; 5] =
    [header::LOCATION, header::LINK, header::ETAG, header::LAST_MODIFIED, header::VARY];

/// The outcome of reading a response body.
pub(super) enum Collected {
    /// The complete body.
    Whole(Bytes),
    /// A body that exceeds the limit: the bytes already read, followed by the rest.
    TooLarge(RejectionBody),
    /// A body that failed: the bytes already read, followed by the error.
    Failed(RejectionBody),
}

/// Reads a body up to the limit.
pub(super) async fn collect<R>(body: R, limit: usize) -> Collected
where
    R: Body + Send + 'static,
    R::Error: Into<BoxError>,
{
    let mut body = Box::pin(BytesBody { body });
    if body.size_hint().lower() > limit as u64 {
        return Collected::TooLarge(boxed(body));
    }
    let mut read = BytesMut::new();
    loop {
        match body.frame().await {
            None => return Collected::Whole(read.freeze()),
            Some(Ok(frame)) => {
                // Trailers are not stored.
                if let Ok(data) = frame.into_data() {
                    read.extend_from_slice(&data);
                }
                if read.len() > limit {
                    return Collected::TooLarge(resumed(read, BodyStream::new(body)));
                }
            }
            Some(Err(error)) => return Collected::Failed(resumed(read, stream::iter([Err(error)]))),
        }
    }
}

/// Creates a body from the bytes already read and the rest.
fn resumed(
    read: BytesMut,
    rest: impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send + 'static,
) -> RejectionBody {
    let read = stream::iter([Ok(Frame::data(read.freeze()))]);
    boxed(StreamBody::new(read.chain(rest)))
}

/// Converts any body into the service's body.
pub(super) fn pass<R>(response: Response<R>) -> Response<RejectionBody>
where
    R: Body + Send + 'static,
    R::Error: Into<BoxError>,
{
    response.map(|body| boxed(BytesBody { body }))
}

/// Returns the part of a response that is stored.
pub(super) fn stored(head: &Parts, body: Bytes, headers: &[HeaderName]) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    let kept = head.headers.iter().filter(|(name, _)| describes_content(name) || headers.contains(name));
    response.headers_mut().extend(kept.map(|(name, value)| (name.clone(), value.clone())));
    response
}

/// Returns `true` for headers such as `Content-Type`, except `Content-Length`, which depends on the stored body.
fn describes_content(name: &HeaderName) -> bool {
    name.as_str().starts_with("content-") && *name != header::CONTENT_LENGTH
}

/// Returns the response that is stored in place of one whose body is too large.
pub(super) fn too_large(status: StatusCode) -> Response<Bytes> {
    let detail =
        format!("the request was executed with status {status}, but its response was too large to be stored");
    Details::new(StatusCode::GONE, ProblemType::ANSWER_NOT_KEPT, &detail).into_bytes()
}

/// Returns a stored response, marked as a replay.
pub(super) fn replay(stored: Response<Bytes>) -> Response<RejectionBody> {
    let mut response = stored.map(whole);
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// Returns a complete body.
pub(super) fn whole(body: Bytes) -> RejectionBody {
    boxed(Full::new(body))
}

pin_project! {
    /// A body with `Bytes` as data that keeps the inner body's length and end.
    // `map_frame` of http-body-util would lose the length.
    struct BytesBody<R> {
        #[pin]
        body: R,
    }
}

impl<R> Body for BytesBody<R>
where
    R: Body,
    R::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let to_bytes = |mut data: R::Data| data.copy_to_bytes(data.remaining());
        let frame = self.project().body.poll_frame(cx);
        frame.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(to_bytes)).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
