//! The body of a response that does not come from the handler.

use crate::error::BoxError;
use bytes::Bytes;
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};

/// The body of a response that does not come from the handler.
pub type RejectionBody = UnsyncBoxBody<Bytes, BoxError>;

pub(crate) fn boxed<B>(body: B) -> RejectionBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}
