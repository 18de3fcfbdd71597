//! A refusal as problem details (RFC 9457).

use super::{hash::KeyHash, kind::ProblemType, retry};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use std::{fmt::Write, time::Duration};

/// `{"type":"urn:problem-type:distlock:contended","title":"Lock is held","status":409,"detail":"…","reason":"contended","retry_after_ms":1200,"key_hash":"…"}`
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

    /// Adds the lock, and when to try again.
    pub(super) fn about(self, key: Option<KeyHash>, retry_after: Option<Duration>) -> Self {
        Self { key, retry_after, ..self }
    }

    /// Invites to try again, after once to twice this time.
    pub(crate) fn retry_after(self, patience: Duration) -> Self {
        Self { retry_after: Some(retry::after(patience)), ..self }
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(self.json()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        // A refusal is about this moment.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, retry::whole_seconds(after).into());
        }
        response
    }

    fn json(&self) -> String {
        let Self { status, kind, detail, .. } = self;
        let (title, reason) = (kind.title, kind.word);
        let mut json = format!(
            "{{\"type\":\"{kind}\",\"title\":\"{title}\",\"status\":{},\"detail\":\"{}\",\"reason\":\"{reason}\"",
            status.as_u16(),
            escaped(detail),
        );
        if let Some(after) = self.retry_after {
            let _ = write!(json, ",\"retry_after_ms\":{}", after.as_millis());
        }
        if let Some(key) = self.key {
            let _ = write!(json, ",\"key_hash\":\"{key}\"");
        }
        json.push('}');
        json
    }
}

/// As a JSON string has it; only the details of a user's own function need it.
fn escaped(text: &str) -> String {
    let mut json = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c.is_control() => drop(write!(json, "\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json
}
