//! A body with `Bytes` as data that keeps the inner body's length and end.

use crate::error::BoxError;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

pin_project! {
    // `map_frame` of http-body-util would lose the length.
    pub(super) struct BytesBody<R> {
        #[pin]
        pub(super) body: R,
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
