//! The default rejection response: problem details (RFC 9457).

use super::{hash::KeyHash, kind::ProblemType, retry};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};
use std::time::Duration;

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
        Self { retry_after: Some(retry::after(wait)), ..self }
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
            headers.insert(header::RETRY_AFTER, retry::whole_seconds(after).into());
            return retry::not_started(response);
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
