//! The responses to rejected requests: problem details (RFC 9457), trailers for gRPC clients, and the suggested delay
//! of a retry.

use super::{
    hash::KeyHash,
    reason::{ProblemType, RejectReason},
};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};
use std::time::Duration;

/// The error type of bodies, the same as `tower::BoxError`.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response that does not come from the handler.
pub(crate) type RejectionBody = UnsyncBoxBody<Bytes, BoxError>;

pub(crate) fn boxed<B>(body: B) -> RejectionBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// The members of a problem details object.
pub(crate) struct Details<'a> {
    status: StatusCode,
    kind: ProblemType,
    detail: &'a str,
    retry_after: Option<Duration>,
    key: Option<KeyHash>,
}

impl<'a> Details<'a> {
    pub(crate) fn new(status: StatusCode, kind: ProblemType, detail: &'a str) -> Self {
        Self { status, kind, detail, retry_after: None, key: None }
    }

    /// Adds the key hash and the delay before a retry.
    pub(super) fn about(self, key: Option<KeyHash>, retry_after: Option<Duration>) -> Self {
        Self { key, retry_after, ..self }
    }

    /// Suggests a retry after one to two times this duration.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(retry_after(wait)), ..self }
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        self.into_bytes().map(Full::new)
    }

    pub(crate) fn into_bytes(self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.json().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        // The same request may succeed later, so the rejection must not be cached.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, whole_seconds(after).into());
            return not_started(response);
        }
        response
    }

    fn json(&self) -> Value {
        let mut problem = json!({
            "type": self.kind.to_string(),
            "title": self.kind.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
            "reason": self.kind.word,
        });
        if let Some(after) = self.retry_after {
            problem["retry_after_ms"] = u64::try_from(after.as_millis()).unwrap_or(u64::MAX).into();
        }
        if let Some(key) = self.key {
            problem["key_hash"] = key.to_string().into();
        }
        problem
    }
}

/// The characters that `grpc-message` must escape:
/// <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Returns a trailers-only response for gRPC clients.
pub(super) fn trailers_only(reason: &RejectReason, retry_after: Option<Duration>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", reason.grpc_status().into());
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

const MIN_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Returns one to two times the layer's wait, evenly distributed, in whole milliseconds, so that
/// `Retry-After` and `retry_after_ms` agree.
pub(super) fn retry_after(wait: Duration) -> Duration {
    let base = wait.clamp(MIN_DELAY, MAX_DELAY);
    // Without a random source, uses the middle of the range.
    let share = getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX));
    let after = base + base.mul_f64(share);
    Duration::from_millis(u64::try_from(after.as_millis()).unwrap_or(u64::MAX))
}

/// Marks a response that suggests a retry, so that an outer idempotency layer does not store it. A
/// response with its own `Execution` is unchanged.
pub(crate) fn not_started<B>(response: Response<B>) -> Response<B> {
    #[cfg(feature = "idempotency")]
    let response = {
        use crate::idempotency::Execution;

        let mut response = response;
        if response.extensions().get::<Execution>().is_none() {
            response.extensions_mut().insert(Execution::NotStarted);
        }
        response
    };
    response
}

/// Returns the value of `Retry-After`: whole seconds, rounded up.
pub(super) fn whole_seconds(d: Duration) -> u64 {
    d.as_secs() + u64::from(d.subsec_nanos() > 0)
}
