//! Trailers-only rejection responses for gRPC clients.

use super::{
    body::{RejectionBody, boxed},
    reason::RejectReason,
    retry::not_started,
};
use crate::key::KeyErrorKind;
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::Empty;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::time::Duration;

const INVALID_ARGUMENT: i32 = 3;
const RESOURCE_EXHAUSTED: i32 = 8;
const ABORTED: i32 = 10;
const UNIMPLEMENTED: i32 = 12;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;

/// The characters that `grpc-message` must escape:
/// <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

fn status(reason: &RejectReason) -> i32 {
    match reason {
        RejectReason::Contended | RejectReason::Lost(_) => ABORTED,
        RejectReason::TooManyWaiters | RejectReason::TooManyDetached => RESOURCE_EXHAUSTED,
        RejectReason::Timeout
        | RejectReason::Unavailable(_)
        | RejectReason::RecordsUnavailable
        | RejectReason::LostBeforeWork(_)
        | RejectReason::ShutDown => UNAVAILABLE,
        RejectReason::KeyReused => INVALID_ARGUMENT,
        RejectReason::Key(error) => match error.kind() {
            KeyErrorKind::Missing | KeyErrorKind::BadRequest => INVALID_ARGUMENT,
            KeyErrorKind::Misconfigured => INTERNAL,
            KeyErrorKind::Unavailable => UNAVAILABLE,
            KeyErrorKind::NoRoute => UNIMPLEMENTED,
        },
        RejectReason::Misconfigured(_) => INTERNAL,
    }
}

pub(super) fn trailers_only(reason: &RejectReason, retry_after: Option<Duration>) -> Response<RejectionBody> {
    let mut response = Response::new(boxed(Empty::<Bytes>::new()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", status(reason).into());
    let message = utf8_percent_encode(reason.detail(), ESCAPED).to_string();
    if let Ok(message) = HeaderValue::try_from(message) {
        headers.insert("grpc-message", message);
    }
    if let Some(after) = retry_after {
        let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        headers.insert("grpc-retry-pushback-ms", millis.into());
        return not_started(response);
    }
    response
}
