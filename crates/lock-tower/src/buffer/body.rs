//! A fully received request body.

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

/// The complete body of a request, with its trailers.
#[derive(Debug, Clone, Default)]
pub struct BufferedBody {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

impl BufferedBody {
    pub(super) fn new(data: Bytes, trailers: Option<HeaderMap>) -> Self {
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
